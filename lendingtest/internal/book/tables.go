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
	t.Customers.keys = func(c *record.Customer) []Key { return []Key{OfEmail(c.Email)} }
	t.Applications.keys = func(a *record.Application) []Key { return []Key{OfCustomer(a.CustomerID), OfPartner(a.PartnerID)} }
	t.Loans.keys = func(l *record.Loan) []Key { return []Key{OfCustomer(l.CustomerID), OfApplication(l.ApplicationID)} }
	t.Subscriptions.keys = func(sub *record.Subscription) []Key {
		return []Key{OfPartner(sub.PartnerID), OfCustomer(sub.CustomerID)}
	}
	return t
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
	if loan := t.Loans.Get(id); loan != nil {
		return loan.ApplicationID
	}
	if app := t.Applications.Get(id); app != nil {
		return app.CustomerID
	}
	if customer := t.Customers.Get(id); customer != nil {
		return customer.Email
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
	if row := t.Customers.Get(id); row != nil {
		c := *row
		return func(to *Tables) { to.Customers.Put(id, &c) }
	}
	if row := t.Applications.Get(id); row != nil {
		c := *row
		c.Documents, c.Messages = nil, nil
		c = c.Clone()
		c.Documents, c.Messages = slices.Clip(row.Documents), slices.Clip(row.Messages) // these lists only grow; copying them at every write would take quadratic time
		return func(to *Tables) { to.Applications.Put(id, &c) }
	}
	if row := t.Loans.Get(id); row != nil {
		c := row.Clone()
		return func(to *Tables) { to.Loans.Put(id, &c) }
	}
	if row := t.Subscriptions.Get(id); row != nil {
		c := row.Clone()
		return func(to *Tables) { to.Subscriptions.Put(id, &c) }
	}
	return func(to *Tables) { to.Subscriptions.Drop(id) } // only subscriptions can be deleted
}
