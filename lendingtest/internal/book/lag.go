package book

import (
	"slices"
	"time"
)

// lag hides recent writes from reads.
type lag struct {
	by      time.Duration
	shown   *Tables
	waiting []write
}

// write is a row that reads do not see yet.
type write struct {
	id   string
	when time.Time
	give func(*Tables)
}

// written hides the new state of a row that a mutation may have changed.
func (l *lag) written(t *Tables, id string, now time.Time) {
	if l.by > 0 {
		l.catchUp(now) // even if nobody reads
		l.waiting = append(l.waiting, write{id, now, t.copyOf(id)})
	}
}

// seeded shows the row of an id and the rows of its owners.
func (l *lag) seeded(t *Tables, id string) {
	for range 4 { // loan, application, customer, e-mail; the limit ends cycles, because a test may use an identifier twice
		if l.by == 0 || id == "" {
			return
		}
		l.waiting = slices.DeleteFunc(l.waiting, func(w write) bool { return w.id == id })
		t.copyOf(id)(l.shown)
		id = t.Owner(id)
	}
}

// catchUp shows the writes that are old enough.
func (l *lag) catchUp(now time.Time) {
	for len(l.waiting) > 0 && now.Sub(l.waiting[0].when) >= l.by {
		l.waiting[0].give(l.shown)
		l.waiting[0] = write{}
		l.waiting = l.waiting[1:]
	}
}
