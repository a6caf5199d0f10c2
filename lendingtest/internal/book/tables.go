package book

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/lendingapi/lending-go/lendingtest/record"
)

// Tables are the records that reads see: pointers to customers, applications, loans and subscriptions.
type Tables struct {
	rows  map[string]any // by identifier
	order []any          // in order of creation
}

func newTables() *Tables { return &Tables{rows: map[string]any{}} }

// about returns kind, identifier and owner of a record. The owner of a loan is its application, of an application its
// customer, of a customer the e-mail.
func about(row any) (kind, id, owner string) {
	switch row := row.(type) {
	case *record.Customer:
		return "customer", row.ID, row.Email
	case *record.Application:
		return "application", row.ID, row.CustomerID
	case *record.Loan:
		return "loan", row.ID, row.ApplicationID
	case *record.Subscription:
		return "subscription", row.ID, ""
	}
	return "subscription", "", "" // only subscriptions can be deleted
}

// Clone returns a deep copy of a record.
func Clone[T any](row T) T {
	c, _ := reflect.TypeAssert[T](deep(reflect.ValueOf(&row).Elem())) // nil is a copy of nil
	return c
}

func deep(v reflect.Value) reflect.Value {
	c := reflect.New(v.Type()).Elem()
	c.Set(v)
	switch {
	case v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[time.Time]():
		for i := range v.NumField() {
			c.Field(i).Set(deep(v.Field(i)))
		}
	case v.Type() == reflect.TypeFor[json.RawMessage]():
		c.SetBytes(bytes.Clone(v.Bytes()))
	case v.Kind() == reflect.Slice && !v.IsNil():
		c.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		for i := range v.Len() {
			c.Index(i).Set(deep(v.Index(i)))
		}
	case v.Kind() == reflect.Map && !v.IsNil(): // of texts
		c.Set(reflect.MakeMap(v.Type()))
		for key, value := range v.Seq2() {
			c.SetMapIndex(key, value)
		}
	case v.Kind() == reflect.Pointer && !v.IsNil():
		c.Set(reflect.New(v.Type().Elem()))
		c.Elem().Set(deep(v.Elem()))
	case v.Kind() == reflect.Interface && !v.IsNil():
		c.Set(deep(v.Elem()))
	}
	return c
}

// Put adds a record, or replaces the record with the same identifier. Put panics if that is a record of another kind.
func Put[T any](t *Tables, row *T) *T { return t.put(row).(*T) }

func (t *Tables) put(row any) (own any) {
	kind, id, _ := about(row)
	own = t.rows[id]
	if own == nil {
		t.rows[id], t.order = row, append(t.order, row)
		return row
	}
	if other, _, _ := about(own); other != kind {
		panic(fmt.Sprintf("lendingtest: the identifier %q belongs to a record of another kind: %s", id, other))
	}
	set(own, row)
	return own
}

// set makes a record equal to another record.
func set(row, other any) { reflect.ValueOf(row).Elem().Set(reflect.ValueOf(other).Elem()) }

// Get returns a record, or nil.
func Get[T any](t *Tables, id string) *T {
	row, _ := t.rows[id].(*T)
	return row
}

// Where returns the records of a kind for which fits returns true.
func Where[T any](t *Tables, fits func(*T) bool) (all []*T) {
	for _, row := range t.order {
		if row, ok := row.(*T); ok && fits(row) {
			all = append(all, row)
		}
	}
	return all
}

// All returns the records of a kind.
func All[T any](t *Tables) []*T { return Where(t, func(*T) bool { return true }) }

// Has reports whether there is a record with this identifier.
func (t *Tables) Has(id string) bool { return t.rows[id] != nil }

// Drop deletes a record.
func (t *Tables) Drop(id string) {
	own := t.rows[id]
	delete(t.rows, id)
	t.order = slices.DeleteFunc(t.order, func(row any) bool { return row == own })
}

// Target names the partner and the customer of an event.
type Target struct{ PartnerID, CustomerID string }

// SubscriptionsOf returns the subscriptions of the partner and of the customer.
func (t *Tables) SubscriptionsOf(of Target) []*record.Subscription {
	return Where(t, func(sub *record.Subscription) bool {
		return of.PartnerID != "" && sub.PartnerID == of.PartnerID || of.CustomerID != "" && sub.CustomerID == of.CustomerID
	})
}

// ByEmail returns a customer with this e-mail address, or nil.
func (t *Tables) ByEmail(email string) *record.Customer {
	for _, row := range Where(t, func(row *record.Customer) bool { return strings.EqualFold(row.Email, email) }) {
		return row
	}
	return nil
}

// Related returns the identifiers and their owners, without duplicates: for a loan its
// application, the application's customer and the customer's e-mail.
func (t *Tables) Related(ids []string) (all []string) {
	seen := map[string]bool{}
	for _, id := range ids {
		for id != "" && !seen[id] {
			seen[id], all = true, append(all, id)
			_, _, id = about(t.rows[id])
		}
	}
	return all
}
