package book

import (
	"cmp"
	"iter"
	"slices"
)

// Table keeps rows by identifier, in order of creation, and by the keys of their lists. A lookup
// by key costs what it returns, also in a table of 20,000 rows.
type Table[T any] struct {
	keys    func(*T) []Key
	rows    map[string]*Row[T]
	order   []*Row[T]         // in order of creation
	lists   map[Key][]*Row[T] // in order of creation
	created int
}

// Len returns the number of rows.
func (t *Table[T]) Len() int { return len(t.order) }

// Row is the place of a row, which may be replaced by a newer row.
type Row[T any] struct {
	id    string
	row   *T
	place int // in order of creation
	keys  []Key
}

// Key names a list: all rows of a customer, an application, a partner or an e-mail address.
type Key struct{ of, id string }

// Put adds a row, replaces the row with the same identifier, or notices a change of a row.
func (t *Table[T]) Put(id string, row *T) *T {
	if t.rows == nil {
		t.rows, t.lists = map[string]*Row[T]{}, map[Key][]*Row[T]{}
	}
	at := t.rows[id]
	if at == nil {
		t.created++
		at = &Row[T]{id: id, place: t.created}
		t.rows[id], t.order = at, append(t.order, at)
	}
	at.row = row
	t.list(at, t.keys(row))
	return row
}

// list moves a row from its lists to the lists of these keys.
func (t *Table[T]) list(at *Row[T], keys []Key) {
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
func placeIn[T any](list []*Row[T], at *Row[T]) (i int, found bool) {
	return slices.BinarySearchFunc(list, at.place, func(other *Row[T], place int) int { return cmp.Compare(other.place, place) })
}

func without[T any](list []*Row[T], at *Row[T]) []*Row[T] {
	if i, found := placeIn(list, at); found {
		return slices.Delete(list, i, i+1)
	}
	return list
}

// Get returns a row, or nil.
func (t *Table[T]) Get(id string) *T {
	if at := t.rows[id]; at != nil {
		return at.row
	}
	return nil
}

// By returns the list of a key. The list is valid until the table changes.
func (t *Table[T]) By(key Key) []*Row[T] { return t.lists[key] }

// All returns the rows in order of creation.
func (t *Table[T]) All() iter.Seq[*T] { return Rows(t.order) }

// Last returns the last n rows.
func (t *Table[T]) Last(n int) iter.Seq[*T] { return Rows(t.order[max(0, len(t.order)-n):]) }

// Rows returns the rows of a list.
func Rows[T any](list []*Row[T]) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for _, at := range list {
			if !yield(at.row) {
				return
			}
		}
	}
}

// Drop deletes a row.
func (t *Table[T]) Drop(id string) {
	if at := t.rows[id]; at != nil {
		delete(t.rows, id)
		t.order = without(t.order, at)
		t.list(at, nil)
	}
}
