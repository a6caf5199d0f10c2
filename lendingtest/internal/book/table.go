package book

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
)

// Table keeps rows by identifier, in order of creation, and by the keys of their lists. A lookup
// by key costs what it returns, also in a table of 20,000 rows.
type Table[T any] struct {
	schema[T]
	rows    map[string]*Row[T]
	order   []*Row[T]         // in order of creation
	lists   map[Key][]*Row[T] // in order of creation
	created int
}

// schema says what a table needs to know of its rows.
type schema[T any] struct {
	kind    string
	about   func(*T) (id *string, owner string, keys []Key)
	clone   func(*T) T // a deep copy
	share   func(*T) T // a copy for reads, independent of later mutations
	changed func(s *State, before T, row *T)
}

// rows are the rows of any table.
type rows interface {
	has(id string) (kind string)
	ownerOf(id string) string
	copyOf(id string) (give func(to rows))
	set(s *State, id string, fields json.RawMessage) error
}

func (t *Table[T]) has(id string) string {
	if t.rows[id] == nil {
		return ""
	}
	return t.kind
}

func (t *Table[T]) ownerOf(id string) string {
	_, owner, _ := t.about(t.Get(id))
	return owner
}

func (t *Table[T]) copyOf(id string) func(rows) {
	c := t.share(t.Get(id))
	return func(to rows) { to.(*Table[T]).Put(id, &c) }
}

// add adds a row with an identifier, and shows it to reads at once.
func (t *Table[T]) add(s *State, row T) *T {
	id, _, _ := t.about(&row)
	t.Put(*id, &row)
	s.Seeded(*id)
	return &row
}

// Update calls f with a copy of a row, keeps the copy unless f fails, and posts the events of the change.
// It panics if there is no such row.
func (t *Table[T]) Update(s *State, id string, f func(*T) error) error {
	row := t.Get(id)
	if row == nil {
		panic(fmt.Sprintf("lendingtest: no %s %q", t.kind, id))
	}
	before, after := t.clone(row), t.clone(row)
	if err := f(&after); err != nil {
		return err
	}
	*row = after
	t.changed(s, before, row)
	t.Put(id, row) // f may have changed its owner
	s.Seeded(id)
	return nil
}

// set sets all fields of a JSON object, or none, and never the identifier.
func (t *Table[T]) set(s *State, id string, fields json.RawMessage) error {
	return t.Update(s, id, func(row *T) error {
		d := json.NewDecoder(bytes.NewReader(fields))
		d.DisallowUnknownFields()
		if err := d.Decode(row); err != nil {
			return fmt.Errorf("set: %w", err)
		}
		if own, _, _ := t.about(row); *own != id {
			return errors.New("update cannot change the id; leave out the id in set")
		}
		return nil
	})
}

// Copy returns copies of all rows.
func (t *Table[T]) Copy() []T {
	all := []T{}
	for row := range t.All() {
		all = append(all, t.clone(row))
	}
	return all
}

// load adds copies of rows.
func (t *Table[T]) load(all []T) {
	for i := range all {
		row := t.clone(&all[i])
		id, _, _ := t.about(&row)
		t.Put(*id, &row)
	}
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
	_, _, keys := t.about(row)
	t.list(at, keys)
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
