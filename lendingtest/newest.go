package lendingtest

import (
	"slices"
	"time"
)

// Newest has the newest rows of each list, latest last, and the lengths of the lists. Its cost
// depends on the returned rows only, so a page can poll a service with 20,000 records several
// times a second.
type Newest struct {
	Time         time.Time // by the service's clock
	Requests     []Request
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
func (s *Service) Newest(n int) Newest {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := Newest{
		Time: s.now(), Sent: s.sent.last(n), Deliveries: s.post.delivered.last(n),
		AllSent: len(s.sent.rows), AllDeliveries: len(s.post.delivered.rows),
		AllCustomers: len(s.customers.order), AllApplications: len(s.applications.order), AllLoans: len(s.loans.order),
		ApplicationsOf: map[string]int{}, LoansOf: map[string]int{},
	}
	for _, e := range s.requests.last(n) {
		all.Requests = append(all.Requests, e.copy())
	}
	for c := range s.customers.last(n) {
		all.Customers = append(all.Customers, *c)
		all.ApplicationsOf[c.ID] = len(s.applications.by(ofCustomer(c.ID)))
	}
	for a := range s.applications.last(n) {
		all.Applications = append(all.Applications, a.clone())
		all.LoansOf[a.ID] = len(s.loans.by(ofApplication(a.ID)))
	}
	for l := range s.loans.last(n) {
		all.Loans = append(all.Loans, l.clone())
	}
	return all
}

// last returns the last n rows.
func (l *recent[T]) last(n int) []T { return slices.Clone(l.rows[max(0, len(l.rows)-n):]) }
