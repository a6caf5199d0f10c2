package book

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Table keeps rows by identifier, in order of creation.
type Table[T any] struct {
	schema[T]
	rows  map[string]*T
	order []*T
}

// schema says what a table needs to know of its rows.
type schema[T any] struct {
	kind    string
	about   func(*T) (id *string, owner string)
	clone   func(*T) T // a deep copy
	changed func(s *State, before T, row *T)
}

// rows are the rows of any table.
type rows interface {
	has(id string) bool
	ownerOf(id string) string
	copyOf(id string) (kind string, give func(to rows))
	set(s *State, id string, fields json.RawMessage) error
}

func (t *Table[T]) has(id string) bool { return t.rows[id] != nil }

func (t *Table[T]) ownerOf(id string) string {
	_, owner := t.about(t.Get(id))
	return owner
}

func (t *Table[T]) copyOf(id string) (kind string, give func(rows)) {
	c := t.clone(t.Get(id))
	return t.kind, func(to rows) { to.(*Table[T]).Put(id, &c) }
}

// add adds a row with an identifier, and shows it to reads at once.
func (t *Table[T]) add(s *State, row T) *T {
	id, _ := t.about(&row)
	own := t.Put(*id, &row)
	s.Seeded(*id)
	return own
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
		if own, _ := t.about(row); *own != id {
			return errors.New("update cannot change the id; leave out the id in set")
		}
		return nil
	})
}

// Copy returns copies of all rows.
func (t *Table[T]) Copy() []T {
	all := []T{}
	for _, row := range t.order {
		all = append(all, t.clone(row))
	}
	return all
}

// Put adds a row, or replaces the row with the same identifier.
func (t *Table[T]) Put(id string, row *T) *T {
	if own := t.rows[id]; own != nil {
		*own = *row
		return own
	}
	if t.rows == nil {
		t.rows = map[string]*T{}
	}
	t.rows[id], t.order = row, append(t.order, row)
	return row
}

// Get returns a row, or nil.
func (t *Table[T]) Get(id string) *T { return t.rows[id] }

// All returns the rows.
func (t *Table[T]) All() []*T { return t.order }

// Where returns the rows for which fits returns true.
func (t *Table[T]) Where(fits func(*T) bool) (all []*T) {
	for _, row := range t.order {
		if fits(row) {
			all = append(all, row)
		}
	}
	return all
}

// Drop deletes a row.
func (t *Table[T]) Drop(id string) {
	own := t.rows[id]
	delete(t.rows, id)
	t.order = slices.DeleteFunc(t.order, func(row *T) bool { return row == own })
}
