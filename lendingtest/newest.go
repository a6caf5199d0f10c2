package lendingtest

import (
	"time"

	"github.com/lendingapi/lending-go/lendingtest/internal/book"
)

// Newest has the newest rows of each list, latest last, and the lengths of the lists. Its cost
// depends on the returned rows only, so a page can poll a service with 20,000 records several
// times a second.
type Newest struct {
	Time         time.Time // by the service's clock
	Sent         []Sent
	Deliveries   []Delivery
	Customers    []Customer
	Applications []Application
	Loans        []Loan

	// The total numbers of rows. The service keeps the last 10,000 sent messages and deliveries.
	AllSent, AllDeliveries, AllCustomers, AllApplications, AllLoans int
	// ApplicationsOf is the number of applications of each customer in Customers. LoansOf is the
	// number of loans of each application in Applications.
	ApplicationsOf, LoansOf map[string]int
}

// Newest returns the last n rows of each list.
func (r *records) Newest(n int) Newest {
	all := Newest{Time: r.Now(), ApplicationsOf: map[string]int{}, LoansOf: map[string]int{}}
	all.Deliveries, all.AllDeliveries = r.post.Last(n)
	r.book.Do(func(s *book.State) {
		all.Sent, all.AllSent = s.Sent.Last(n), len(s.Sent.Rows())
		all.AllCustomers, all.AllApplications, all.AllLoans = s.Customers.Len(), s.Applications.Len(), s.Loans.Len()
		for c := range s.Customers.Last(n) {
			all.Customers = append(all.Customers, *c)
			all.ApplicationsOf[c.ID] = len(s.Applications.By(book.OfCustomer(c.ID)))
		}
		for a := range s.Applications.Last(n) {
			all.Applications = append(all.Applications, a.Clone())
			all.LoansOf[a.ID] = len(s.Loans.By(book.OfApplication(a.ID)))
		}
		for l := range s.Loans.Last(n) {
			all.Loans = append(all.Loans, l.Clone())
		}
	})
	return all
}
