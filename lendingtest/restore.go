package lendingtest

import (
	"errors"
	"fmt"
	"maps"
)

// Restore starts a service with the state of a snapshot. [New] panics if [Service.Restore]
// returns an error.
func Restore(snap Snapshot) Option {
	return func(c *config) { c.restore = &snap }
}

// Restore replaces the state with a snapshot of this service, of another service or from JSON.
// Everything continues from there: the tokens and codes of the snapshot are valid, the next
// identifiers follow its last identifiers, and the service's clock shows its time.
//
// Restore cancels the mutations that [Fault].Late holds back, and pending decisions and
// repayments. The request log, counters, planned faults and deliveries stay, and so do accounts
// that the snapshot does not have.
//
// Restore returns an error if no service made the snapshot, or if its records contradict each
// other.
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

// Reset restores the state in which the service started: no records except those of the option
// [Restore], no request log, counters, faults, replaced responses, deliveries or scenarios.
// Options, watchers and the setting of SetTokenLifetime stay.
//
// Identifiers start again from the first. Identifiers that a client has stored, for instance in
// an idempotency log, are then invalid or, worse, belong to other records, so clear both.
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

// check checks the rules that handlers rely on.
func (snap *Snapshot) check() error {
	if snap.memory.Sequences == nil || snap.Time.IsZero() {
		return errors.New("the snapshot was not made by a service")
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
