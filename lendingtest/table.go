package lendingtest

import (
	"cmp"
	"iter"
	"slices"
	"strings"
)

// table keeps rows by identifier, in order of creation, and by the keys of their lists. A lookup
// by key costs what it returns, also in a table of 20,000 rows.
type table[T any, R keyed[T]] struct {
	rows    map[string]*tableRow[T]
	order   []*tableRow[T]             // in order of creation
	lists   map[listKey][]*tableRow[T] // in order of creation
	created int
}

// tableRow is the place of a row, which may be replaced by a newer row.
type tableRow[T any] struct {
	id    string
	row   *T
	place int // in order of creation
	keys  []listKey
}

// keyed is a pointer to a row that names the lists in which the row stands.
type keyed[T any] interface {
	*T
	keys() []listKey
}

// listKey names a list: all rows of a customer, an application, a partner or an e-mail address.
type listKey struct{ of, id string }

func ofCustomer(id string) listKey    { return listKey{"customer", id} }
func ofApplication(id string) listKey { return listKey{"application", id} }
func ofPartner(id string) listKey     { return listKey{"partner", id} }
func ofEmail(email string) listKey    { return listKey{"e-mail", strings.ToLower(email)} }

func (row *Customer) keys() []listKey { return []listKey{ofEmail(row.Email)} }

func (a *Application) keys() []listKey {
	return []listKey{ofCustomer(a.CustomerID), ofPartner(a.PartnerID)}
}

func (l *Loan) keys() []listKey {
	return []listKey{ofCustomer(l.CustomerID), ofApplication(l.ApplicationID)}
}

func (sub *Subscription) keys() []listKey {
	return []listKey{ofPartner(sub.PartnerID), ofCustomer(sub.CustomerID)}
}

// put adds a row, replaces the row with the same identifier, or notices that a row has changed.
func (t *table[T, R]) put(id string, row *T) *T {
	if t.rows == nil {
		t.rows, t.lists = map[string]*tableRow[T]{}, map[listKey][]*tableRow[T]{}
	}
	at := t.rows[id]
	if at == nil {
		t.created++
		at = &tableRow[T]{id: id, place: t.created}
		t.rows[id], t.order = at, append(t.order, at)
	}
	at.row = row
	t.list(at, R(row).keys())
	return row
}

// list moves a row from its lists to the lists of these keys.
func (t *table[T, R]) list(at *tableRow[T], keys []listKey) {
	if slices.Equal(at.keys, keys) {
		return
	}
	for _, key := range at.keys {
		if t.lists[key] = without(t.lists[key], at); len(t.lists[key]) == 0 {
			delete(t.lists, key)
		}
	}
	at.keys = keys
	for _, key := range keys {
		if i, found := placeIn(t.lists[key], at); !found {
			t.lists[key] = slices.Insert(t.lists[key], i, at)
		}
	}
}

// placeIn returns the place of a row in a list.
func placeIn[T any](list []*tableRow[T], at *tableRow[T]) (i int, found bool) {
	return slices.BinarySearchFunc(list, at.place, func(other *tableRow[T], place int) int { return cmp.Compare(other.place, place) })
}

func without[T any](list []*tableRow[T], at *tableRow[T]) []*tableRow[T] {
	if i, found := placeIn(list, at); found {
		return slices.Delete(list, i, i+1)
	}
	return list
}

func (t *table[T, R]) get(id string) *T {
	if at := t.rows[id]; at != nil {
		return at.row
	}
	return nil
}

// by returns the list of a key. The list is valid until the table changes.
func (t *table[T, R]) by(key listKey) []*tableRow[T] { return t.lists[key] }

// all returns the rows in order of creation.
func (t *table[T, R]) all() iter.Seq[*T] { return rowsOf(t.order) }

// last returns the last n rows.
func (t *table[T, R]) last(n int) iter.Seq[*T] { return rowsOf(t.order[max(0, len(t.order)-n):]) }

func rowsOf[T any](list []*tableRow[T]) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for _, at := range list {
			if !yield(at.row) {
				return
			}
		}
	}
}

func (t *table[T, R]) drop(id string) {
	if at := t.rows[id]; at != nil {
		delete(t.rows, id)
		t.order = without(t.order, at)
		t.list(at, nil)
	}
}

// dropWhere deletes the rows for which gone returns true, in order of creation.
func (t *table[T, R]) dropWhere(gone func(*T) bool) {
	before := t.order
	*t = table[T, R]{}
	for _, at := range before {
		if !gone(at.row) {
			t.put(at.id, at.row)
		}
	}
}
