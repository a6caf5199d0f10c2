package book

import (
	"slices"
	"time"
)

// lag hides recent writes from reads.
type lag struct {
	by      func(kind string) time.Duration // nil for no lag
	shown   *Tables
	waiting []write
}

// write is a row that reads do not see yet.
type write struct {
	id   string
	when time.Time
	row  any // nil if it was deleted
}

// written hides the new state of a row that a mutation may have changed.
func (l *lag) written(t *Tables, id string, now time.Time) {
	if l.by != nil {
		l.catchUp(now) // even if nobody reads
		l.waiting = append(l.waiting, write{id, now, Clone(t.rows[id])})
	}
}

// seeded shows the row of an id and the rows of its owners.
func (l *lag) seeded(t *Tables, id string) {
	if l.by == nil {
		return
	}
	for _, id := range t.Related([]string{id}) {
		l.waiting = slices.DeleteFunc(l.waiting, func(w write) bool { return w.id == id })
		l.show(write{id: id, row: Clone(t.rows[id])})
	}
}

// catchUp shows writes of sufficient age.
func (l *lag) catchUp(now time.Time) {
	l.waiting = slices.DeleteFunc(l.waiting, func(w write) bool {
		kind, _, _ := about(w.row)
		due := now.Sub(w.when) >= l.by(kind)
		if due {
			l.show(w)
		}
		return due
	})
}

func (l *lag) show(w write) {
	if w.row == nil {
		l.shown.Drop(w.id)
	} else {
		l.shown.put(w.row)
	}
}
