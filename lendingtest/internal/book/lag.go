package book

import (
	"slices"
	"time"
)

// lag hides recent writes from reads.
type lag struct {
	by      func(kind string) time.Duration // nil for no lag
	shown   *Tables
	waiting map[string][]write // by the kind of the row: a look at the oldest costs little
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
		kind, _, _ := about(t.rows[id])
		l.waiting[kind] = append(l.waiting[kind], write{id, now, Clone(t.rows[id])})
	}
}

// seeded shows the row of an id and the rows of its owners.
func (l *lag) seeded(t *Tables, id string) {
	if l.by == nil {
		return
	}
	for _, id := range t.Related([]string{id}) {
		kind, _, _ := about(t.rows[id])
		l.waiting[kind] = slices.DeleteFunc(l.waiting[kind], func(w write) bool { return w.id == id })
		l.show(write{id: id, row: Clone(t.rows[id])})
	}
}

// catchUp shows writes of sufficient age.
func (l *lag) catchUp(now time.Time) {
	for kind, waiting := range l.waiting {
		for by := l.by(kind); len(waiting) > 0 && now.Sub(waiting[0].when) >= by; waiting = waiting[1:] {
			l.show(waiting[0])
			waiting[0] = write{}
		}
		l.waiting[kind] = waiting
	}
}

func (l *lag) show(w write) {
	if w.row == nil {
		l.shown.Drop(w.id)
	} else {
		l.shown.put(w.row)
	}
}
