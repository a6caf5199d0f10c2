package lendingtest

import (
	"errors"
	"fmt"
	"maps"
)

// Restore starts a service with the state of a snapshot, as [Service.Restore] puts it
// back. It panics where that returns an error.
func Restore(snap Snapshot) Option {
	return func(c *config) { c.restore = &snap }
}

// Restore replaces the state by that of a snapshot, be it of this service, of another
// one, or read from its JSON. Everything goes on from there: tokens and codes of then
// are good, the next identifiers are those that would have come, and the service's time
// is that of the snapshot. Mutations that [Fault].Late holds back are forgotten, and so are
// decisions and repayments to come. The
// requests, counts, planned faults and deliveries stay as they are, and so do accounts
// that the snapshot does not have.
//
// A snapshot that no service made, or whose records do not fit together, is refused.
func (s *Service) Restore(snap Snapshot) error {
	if err := snap.check(); err != nil {
		return fmt.Errorf("lendingtest: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(snap)
	return nil
}

// put needs s.mu.
func (s *Service) put(snap Snapshot) {
	m := snap.memory
	s.cfg.seed, s.sequences, s.codes = m.Seed, maps.Clone(m.Sequences), m.Codes
	s.offset = snap.Time.Sub(s.cfg.clock())
	s.tokens, s.twoFactor = map[string]*session{}, map[string]*oneTimeCode{}
	for _, a := range m.Accounts {
		s.accounts[a.Username] = &a
	}
	for _, t := range m.Tokens {
		s.tokens[t.Token] = &t
	}
	for name, code := range m.TwoFactor {
		s.twoFactor[name] = &code
	}
	s.payloads, s.sent, s.sweepAt = recent[[]byte]{}, recent[Sent]{}, 0
	for _, body := range snap.Payloads {
		s.payloads.add(body, len(body))
	}
	for _, m := range snap.Sent {
		s.sent.add(m, 0)
	}
	s.tables, s.lag = tables{}, lag{}
	s.dropJobs()
	for _, c := range snap.Customers {
		s.customers.put(c.ID, &c)
		s.seeded(c.ID)
	}
	for _, a := range snap.Applications {
		a = a.clone()
		s.applications.put(a.ID, &a)
		s.seeded(a.ID)
	}
	for _, l := range snap.Loans {
		l = l.clone()
		if p, ok := m.Pending[l.ID]; ok {
			p = p.clone()
			l.pending = &p
		}
		s.loans.put(l.ID, &l)
		s.seeded(l.ID)
	}
	for _, sub := range snap.Subscriptions {
		sub = sub.clone()
		s.subscriptions.put(sub.ID, &sub)
		s.seeded(sub.ID)
	}
	s.late.drop()
}

// Reset brings the service back to the state that it started with: no records but
// those of [Restore], no requests, no counts, no faults, no answers of a test's own, and
// nothing to deliver. Options, watchers and what SetTokenLifetime has set stay.
//
// Identifiers begin again. Those that a client has kept, for instance in an idempotency log of
// its mutations, are dead then, or, worse, become somebody else's: clear both.
func (s *Service) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(s.started)
	if s.cfg.restore == nil {
		s.offset = 0
	}
	s.faults, s.requests, s.numbered, s.outside = nil, recent[*entry]{}, 0, 0
	clear(s.arrived)
	clear(s.executed)
	clear(s.executedFor)
	clear(s.answers)
	s.decision, s.steps = Decision{}, nil
	clear(s.shifts)
	s.post.drop()
}

// check finds what handlers rely on.
func (snap *Snapshot) check() error {
	if snap.memory.Sequences == nil || snap.Time.IsZero() {
		return errors.New("not a snapshot that a service has made")
	}
	known := map[string]bool{}
	var faults []error
	need := func(what, id string) {
		if !known[what+id] {
			faults = append(faults, fmt.Errorf("the snapshot has no %s %q", what, id))
		}
	}
	for _, a := range snap.memory.Accounts {
		known["account"+a.Username] = true
	}
	for _, t := range snap.memory.Tokens {
		need("account", t.Username)
	}
	for name := range snap.memory.TwoFactor {
		need("account", name)
	}
	once := func(what, id string) {
		if known[what+id] {
			faults = append(faults, fmt.Errorf("the snapshot has the %s %q twice", what, id))
		}
		known[what+id] = true
	}
	for _, c := range snap.Customers {
		once("customer", c.ID)
	}
	for _, a := range snap.Applications {
		need("customer", a.CustomerID)
		once("application", a.ID)
	}
	for _, l := range snap.Loans {
		need("application", l.ApplicationID)
		need("customer", l.CustomerID)
		once("loan", l.ID)
	}
	for _, sub := range snap.Subscriptions {
		once("subscription", sub.ID)
	}
	for id := range snap.memory.Pending {
		need("loan", id)
	}
	return errors.Join(faults...)
}
