package lendingtest

import (
	"iter"
	"maps"
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
		AllCustomers: len(s.customers.ids), AllApplications: len(s.applications.ids), AllLoans: len(s.loans.ids),
	}
	for _, e := range s.requests.last(n) {
		all.Requests = append(all.Requests, e.copy())
	}
	for c := range s.customers.last(n) {
		all.Customers = append(all.Customers, *c)
	}
	for a := range s.applications.last(n) {
		all.Applications = append(all.Applications, a.clone())
	}
	for l := range s.loans.last(n) {
		all.Loans = append(all.Loans, l.clone())
	}
	all.ApplicationsOf = countBy(s.applications.all(), func(a *Application) string { return a.CustomerID })
	all.LoansOf = countBy(s.loans.all(), func(l *Loan) string { return l.ApplicationID })
	keepOnly(all.ApplicationsOf, all.Customers, func(c Customer) string { return c.ID })
	keepOnly(all.LoansOf, all.Applications, func(a Application) string { return a.ID })
	return all
}

func countBy[T any](rows iter.Seq[T], key func(T) string) map[string]int {
	counts := map[string]int{}
	for row := range rows {
		counts[key(row)]++
	}
	return counts
}

func keepOnly[T any](counts map[string]int, rows []T, key func(T) string) {
	shown := map[string]bool{}
	for _, row := range rows {
		shown[key(row)] = true
	}
	maps.DeleteFunc(counts, func(id string, _ int) bool { return !shown[id] })
}

// last returns the last n rows.
func (t *table[T]) last(n int) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for _, id := range t.ids[max(0, len(t.ids)-n):] {
			if !yield(t.rows[id]) {
				return
			}
		}
	}
}

// last returns the last n rows.
func (l *recent[T]) last(n int) []T { return slices.Clone(l.rows[max(0, len(l.rows)-n):]) }
