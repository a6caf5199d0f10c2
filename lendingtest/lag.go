package lendingtest

import (
	"slices"
	"strings"
	"time"
)

// tables is what reads show.
type tables struct {
	customers     table[Customer]
	applications  table[Application]
	loans         table[Loan]
	subscriptions table[Subscription]
}

// copyOf returns what gives another set of tables the row of an id as it is now.
func (t *tables) copyOf(id string) (give func(*tables)) {
	if row := t.customers.get(id); row != nil {
		c := *row
		return func(to *tables) { to.customers.put(id, &c) }
	}
	if row := t.applications.get(id); row != nil {
		c := *row
		c.Documents, c.Messages = nil, nil
		c = c.clone()
		c.Documents, c.Messages = slices.Clip(row.Documents), slices.Clip(row.Messages) // which only grow: a copy for each write would be the square of them
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
	return func(to *tables) { to.subscriptions.drop(id) } // the only rows that end
}

// lag holds back from reads what was written of late. Service.mu guards it.
type lag struct {
	shown   tables
	waiting []write
}

// write is a row that is not shown yet.
type write struct {
	id   string
	when time.Time
	give func(*tables)
}

// WithReadLag has reads show a write only d later, as a service does that reads from
// replicas: until then what was created is not found, or not in its list, and what was
// changed is as it was before. All GET routes lag that change nothing, customers,
// applications, offers, loans, their lists and webhook subscriptions alike. Mutations see
// everything at once, and so do those GETs that change something, application-offer
// with force among them. What a test seeds or updates is shown at once, with whatever
// else happened to the same record and to those that it belongs to.
//
// The lag is by the service's clock: [Service.Advance] ends it.
func WithReadLag(d time.Duration) Option { return func(c *config) { c.readLag = d } }

// written holds back the row of an id, which a mutation may have changed. It needs s.mu.
func (s *Service) written(id string) {
	if s.cfg.readLag > 0 {
		s.catchUp() // also where nobody reads
		s.lag.waiting = append(s.lag.waiting, write{id, s.now(), s.copyOf(id)})
	}
}

// seeded shows the row of an id, and the rows that it belongs to. It needs s.mu.
func (s *Service) seeded(id string) {
	for range 4 { // a loan, its application, its customer, an e-mail; a test may have given two the same identifier
		if s.cfg.readLag == 0 || id == "" {
			return
		}
		s.lag.waiting = slices.DeleteFunc(s.lag.waiting, func(w write) bool { return w.id == id })
		s.copyOf(id)(&s.lag.shown)
		id = s.beyond(id)
	}
}

// seenBy returns what a request sees. It needs s.mu.
func (s *Service) seenBy(c *call) *tables {
	if s.cfg.readLag == 0 || !c.reads() {
		return &s.tables
	}
	s.catchUp()
	return &s.lag.shown
}

// catchUp shows what is old enough. It needs s.mu.
func (s *Service) catchUp() {
	for len(s.lag.waiting) > 0 && s.now().Sub(s.lag.waiting[0].when) >= s.cfg.readLag {
		s.lag.waiting[0].give(&s.lag.shown)
		s.lag.waiting[0] = write{}
		s.lag.waiting = s.lag.waiting[1:]
	}
}

// reads tells whether a request changes nothing.
func (c *call) reads() bool {
	_, action, _ := strings.Cut(strings.TrimPrefix(c.route.pattern, "GET /api/"), "/")
	switch {
	case c.route.method() != "GET", strings.HasPrefix(action, "process-"), strings.HasPrefix(action, "update-"):
		return false
	}
	return !strings.HasPrefix(action, "application-offer/") || !strings.EqualFold(c.query.Get("force"), "true")
}
