package book

import (
	"strings"

	"github.com/lendingapi/lending-go/lendingtest/record"
)

// Tables are the records that reads see.
type Tables struct {
	Customers     Table[record.Customer]
	Applications  Table[record.Application]
	Loans         Table[record.Loan]
	Subscriptions Table[record.Subscription]
}

func newTables() *Tables {
	t := &Tables{}
	t.Customers.schema = schema[record.Customer]{"customer", func(c *record.Customer) (*string, string) {
		return &c.ID, c.Email
	}, func(c *record.Customer) record.Customer { return *c }, func(*State, record.Customer, *record.Customer) {}}
	t.Applications.schema = schema[record.Application]{"application", func(a *record.Application) (*string, string) {
		return &a.ID, a.CustomerID
	}, (*record.Application).Clone, applicationChanged}
	t.Loans.schema = schema[record.Loan]{"loan", func(l *record.Loan) (*string, string) {
		return &l.ID, l.ApplicationID
	}, (*record.Loan).Clone, loanChanged}
	t.Subscriptions.schema = schema[record.Subscription]{"subscription", func(s *record.Subscription) (*string, string) {
		return &s.ID, ""
	}, (*record.Subscription).Clone, func(*State, record.Subscription, *record.Subscription) {}}
	return t
}

func (t *Tables) all() []rows {
	return []rows{&t.Loans, &t.Applications, &t.Customers, &t.Subscriptions}
}

// holder returns the table that has a record, or nil.
func (t *Tables) holder(id string) rows {
	for _, table := range t.all() {
		if table.has(id) {
			return table
		}
	}
	return nil
}

// Has reports whether there is a record with this identifier.
func (t *Tables) Has(id string) bool { return t.holder(id) != nil }

// Target names the partner and the customer of an event.
type Target struct{ PartnerID, CustomerID string }

// SubscriptionsOf returns the subscriptions of the partner and of the customer.
func (t *Tables) SubscriptionsOf(of Target) []*record.Subscription {
	return t.Subscriptions.Where(func(sub *record.Subscription) bool {
		return of.PartnerID != "" && sub.PartnerID == of.PartnerID || of.CustomerID != "" && sub.CustomerID == of.CustomerID
	})
}

// ByEmail returns a customer with this e-mail address, or nil.
func (t *Tables) ByEmail(email string) *record.Customer {
	for _, row := range t.Customers.All() {
		if strings.EqualFold(row.Email, email) {
			return row
		}
	}
	return nil
}

// Owner returns the owner of a record: a loan's application, an application's customer, a
// customer's e-mail, or "".
func (t *Tables) Owner(id string) string {
	if table := t.holder(id); table != nil {
		return table.ownerOf(id)
	}
	return ""
}

// Related returns the identifiers and their owners, without duplicates: for a loan its
// application, the application's customer and the customer's e-mail.
func (t *Tables) Related(ids []string) (all []string) {
	seen := map[string]bool{}
	for _, id := range ids {
		for id != "" && !seen[id] {
			seen[id], all = true, append(all, id)
			id = t.Owner(id)
		}
	}
	return all
}

// copyOf returns the kind of the row with an id, and a function that copies the current row into other tables.
func (t *Tables) copyOf(id string) (kind string, give func(*Tables)) {
	for i, table := range t.all() {
		if table.has(id) {
			kind, give := table.copyOf(id)
			return kind, func(to *Tables) { give(to.all()[i]) }
		}
	}
	return t.Subscriptions.kind, func(to *Tables) { to.Subscriptions.Drop(id) } // only subscriptions can be deleted
}
