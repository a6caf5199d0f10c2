package lendingtest

import (
	"slices"
	"strings"
	"time"
)

// tables is the state that reads see.
type tables struct {
	customers     table[Customer, *Customer]
	applications  table[Application, *Application]
	loans         table[Loan, *Loan]
	subscriptions table[Subscription, *Subscription]
}

// copyOf returns a function that copies the current row of an id into other tables.
func (t *tables) copyOf(id string) (give func(*tables)) {
	if row := t.customers.get(id); row != nil {
		c := *row
		return func(to *tables) { to.customers.put(id, &c) }
	}
	if row := t.applications.get(id); row != nil {
		c := *row
		c.Documents, c.Messages = nil, nil
		c = c.clone()
		c.Documents, c.Messages = slices.Clip(row.Documents), slices.Clip(row.Messages) // these lists only grow; copying them at every write would take quadratic time
		return func(to *tables) { to.applications.put(id, &c) }
	}
	if row := t.loans.get(id); row != nil {
		c := row.clone()
		return func(to *tables) { to.loans.put(id, &c) }
	}
	if row := t.subscriptions.get(id); row != nil {
		c := row.clone()
		return func(to *tables) { to.subscriptions.put(id, &c) }
	}
	return func(to *tables) { to.subscriptions.drop(id) } // only subscriptions can be deleted
}

// lag hides recent writes from reads. Service.mu guards it.
type lag struct {
	shown   tables
	waiting []write
}

// write is a row that reads do not see yet.
type write struct {
	id   string
	when time.Time
	give func(*tables)
}

// WithReadLag makes reads show a write only after d, like a service that reads from replicas.
// Until then a new record is not found and not listed, and a changed record has its old values.
//
// All GET routes lag that change nothing: customers, applications, offers, loans, their lists
// and webhook subscriptions. Mutations see every write at once, and so do the GETs that change
// state, including application-offer with force. Records that a test adds or updates are visible
// at once, together with all pending writes to the same record and its owners.
//
// The lag follows the service's clock: [Service.Advance] ends it.
func WithReadLag(d time.Duration) Option { return func(c *config) { c.readLag = d } }

// written hides the new state of a row that a mutation may have changed. It needs s.mu.
func (s *Service) written(id string) {
	if s.cfg.readLag > 0 {
		s.catchUp() // even if nobody reads
		s.lag.waiting = append(s.lag.waiting, write{id, s.now(), s.copyOf(id)})
	}
}

// seeded shows the row of an id and the rows of its owners. It needs s.mu.
func (s *Service) seeded(id string) {
	for range 4 { // loan, application, customer, e-mail; the limit ends cycles, because a test may use an identifier twice
		if s.cfg.readLag == 0 || id == "" {
			return
		}
		s.lag.waiting = slices.DeleteFunc(s.lag.waiting, func(w write) bool { return w.id == id })
		s.copyOf(id)(&s.lag.shown)
		id = s.beyond(id)
	}
}

// seenBy returns the tables that a request sees. It needs s.mu.
func (s *Service) seenBy(c *call) *tables {
	if s.cfg.readLag == 0 || !c.reads() {
		return &s.tables
	}
	s.catchUp()
	return &s.lag.shown
}

// catchUp shows the writes that are old enough. It needs s.mu.
func (s *Service) catchUp() {
	for len(s.lag.waiting) > 0 && s.now().Sub(s.lag.waiting[0].when) >= s.cfg.readLag {
		s.lag.waiting[0].give(&s.lag.shown)
		s.lag.waiting[0] = write{}
		s.lag.waiting = s.lag.waiting[1:]
	}
}

// reads reports whether a request changes nothing.
func (c *call) reads() bool {
	_, action, _ := strings.Cut(strings.TrimPrefix(c.route.pattern, "GET /api/"), "/")
	switch {
	case c.route.method() != "GET", strings.HasPrefix(action, "process-"), strings.HasPrefix(action, "update-"):
		return false
	}
	return !strings.HasPrefix(action, "application-offer/") || !strings.EqualFold(c.query.Get("force"), "true")
}
