package book

import (
	"slices"
	"time"
)

// lag hides recent writes from reads.
type lag struct {
	by      func(kind string) time.Duration // nil for no lag
	shown   *Tables
	waiting map[string][]write // by the kind of the row
}

// write is a row that reads do not see yet.
type write struct {
	id   string
	when time.Time
	give func(*Tables)
}

// written hides the new state of a row that a mutation may have changed.
func (l *lag) written(t *Tables, id string, now time.Time) {
	if l.by != nil {
		l.catchUp(now) // even if nobody reads
		kind, give := t.copyOf(id)
		l.waiting[kind] = append(l.waiting[kind], write{id, now, give})
	}
}

// seeded shows the row of an id and the rows of its owners.
func (l *lag) seeded(t *Tables, id string) {
	for range 4 { // loan, application, customer, e-mail; the limit ends cycles, because a test may use an identifier twice
		if l.by == nil || id == "" {
			return
		}
		kind, give := t.copyOf(id)
		l.waiting[kind] = slices.DeleteFunc(l.waiting[kind], func(w write) bool { return w.id == id })
		give(l.shown)
		id = t.Owner(id)
	}
}

// catchUp shows writes of sufficient age.
func (l *lag) catchUp(now time.Time) {
	for kind, waiting := range l.waiting {
		for by := l.by(kind); len(waiting) > 0 && now.Sub(waiting[0].when) >= by; waiting = waiting[1:] {
			waiting[0].give(l.shown)
			waiting[0] = write{}
		}
		l.waiting[kind] = waiting
	}
}
