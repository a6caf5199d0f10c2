package book

import (
	"slices"
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

// The keys of the lists.

// OfCustomer is the list of a customer.
func OfCustomer(id string) Key { return Key{"customer", id} }

// OfApplication is the list of an application.
func OfApplication(id string) Key { return Key{"application", id} }

// OfPartner is the list of a partner.
func OfPartner(id string) Key { return Key{"partner", id} }

// OfEmail is the list of an e-mail address.
func OfEmail(email string) Key { return Key{"e-mail", strings.ToLower(email)} }

func newTables() *Tables {
	t := &Tables{}
	customer := func(c *record.Customer) record.Customer { return *c }
	t.Customers.schema = schema[record.Customer]{"customer", func(c *record.Customer) (*string, string, []Key) {
		return &c.ID, c.Email, []Key{OfEmail(c.Email)}
	}, customer, customer, func(*State, record.Customer, *record.Customer) {}}
	t.Applications.schema = schema[record.Application]{"application", func(a *record.Application) (*string, string, []Key) {
		return &a.ID, a.CustomerID, []Key{OfCustomer(a.CustomerID), OfPartner(a.PartnerID)}
	}, (*record.Application).Clone, shareApplication, applicationChanged}
	t.Loans.schema = schema[record.Loan]{"loan", func(l *record.Loan) (*string, string, []Key) {
		return &l.ID, l.ApplicationID, []Key{OfCustomer(l.CustomerID), OfApplication(l.ApplicationID)}
	}, (*record.Loan).Clone, (*record.Loan).Clone, loanChanged}
	t.Subscriptions.schema = schema[record.Subscription]{"subscription", func(s *record.Subscription) (*string, string, []Key) {
		return &s.ID, "", []Key{OfPartner(s.PartnerID), OfCustomer(s.CustomerID)}
	}, (*record.Subscription).Clone, (*record.Subscription).Clone, subscriptionChanged}
	return t
}

func (t *Tables) all() []rows {
	return []rows{&t.Loans, &t.Applications, &t.Customers, &t.Subscriptions}
}

// shareApplication clones an application without its documents and messages. These lists only grow, and copying them
// at every write would take quadratic time.
func shareApplication(a *record.Application) record.Application {
	c := *a
	c.Documents, c.Messages = nil, nil
	c = c.Clone()
	c.Documents, c.Messages = slices.Clip(a.Documents), slices.Clip(a.Messages)
	return c
}

// holder returns the table that has a record, or nil.
func (t *Tables) holder(id string) rows {
	for _, table := range t.all() {
		if table.has(id) != "" {
			return table
		}
	}
	return nil
}

// Kind returns "customer", "application", "loan" or "subscription" for the identifier of such a record, otherwise "".
func (t *Tables) Kind(id string) string {
	if table := t.holder(id); table != nil {
		return table.has(id)
	}
	return ""
}

// Target names the partner and the customer of an event.
type Target struct{ PartnerID, CustomerID string }

// SubscriptionsOf returns the subscriptions of the partner and of the customer.
func (t *Tables) SubscriptionsOf(of Target) (all []*Row[record.Subscription]) {
	if of.PartnerID != "" {
		all = slices.Clone(t.Subscriptions.By(OfPartner(of.PartnerID)))
	}
	if of.CustomerID != "" {
		for _, at := range t.Subscriptions.By(OfCustomer(of.CustomerID)) {
			if i, found := placeIn(all, at); !found {
				all = slices.Insert(all, i, at)
			}
		}
	}
	return all
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

// copyOf returns a function that copies the current row of an id into other tables.
func (t *Tables) copyOf(id string) (give func(*Tables)) {
	for i, table := range t.all() {
		if table.has(id) != "" {
			give := table.copyOf(id)
			return func(to *Tables) { give(to.all()[i]) }
		}
	}
	return func(to *Tables) { to.Subscriptions.Drop(id) } // only subscriptions can be deleted
}
