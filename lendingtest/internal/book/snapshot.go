package book

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/lendingapi/lending-go/lendingtest/internal/recent"
	"github.com/lendingapi/lending-go/lendingtest/record"
)

// Snapshot returns a deep copy of the state.
func (s *State) Snapshot() record.Snapshot {
	snap := record.Snapshot{
		Time: s.Now(), Customers: []record.Customer{}, Applications: []record.Application{}, Loans: []record.Loan{},
		Subscriptions: []record.Subscription{}, Payloads: s.Payloads.All(), Sent: s.Sent.All(),
		Seed: s.Seed, Sequences: maps.Clone(s.sequences), Codes: s.codes, OldSecrets: maps.Clone(s.oldSecrets),
		TwoFactor: map[string]record.OneTimeCode{}, Pending: map[string]record.Pending{},
	}
	for c := range s.Customers.All() {
		snap.Customers = append(snap.Customers, *c)
	}
	for a := range s.Applications.All() {
		snap.Applications = append(snap.Applications, a.Clone())
	}
	for l := range s.Loans.All() {
		snap.Loans = append(snap.Loans, l.Clone())
	}
	for sub := range s.Subscriptions.All() {
		snap.Subscriptions = append(snap.Subscriptions, sub.Clone())
	}
	for _, name := range slices.Sorted(maps.Keys(s.Accounts)) {
		snap.Accounts = append(snap.Accounts, *s.Accounts[name])
	}
	for _, token := range slices.Sorted(maps.Keys(s.tokens)) {
		snap.Tokens = append(snap.Tokens, *s.tokens[token])
	}
	for name, code := range s.TwoFactor {
		snap.TwoFactor[name] = *code
	}
	for id, p := range s.Pending {
		snap.Pending[id] = *p
	}
	return snap
}

// Restore replaces the state with a snapshot, but keeps accounts that the snapshot does not have.
func (s *State) Restore(snap record.Snapshot) {
	s.Seed, s.sequences, s.codes = snap.Seed, maps.Clone(snap.Sequences), snap.Codes
	s.tokens, s.sweepAt = map[string]*record.Token{}, 0
	s.TwoFactor, s.Pending, s.oldSecrets = map[string]*record.OneTimeCode{}, map[string]*record.Pending{}, map[string]string{}
	maps.Copy(s.oldSecrets, snap.OldSecrets)
	s.Payloads, s.Sent = recent.Log[[]byte]{}, recent.Log[record.Sent]{}
	s.Tables, s.lag.shown, s.lag.waiting = newTables(), newTables(), nil
	for _, a := range snap.Accounts {
		s.Accounts[a.Username] = &a
	}
	for _, t := range snap.Tokens {
		s.tokens[t.Token] = &t
	}
	for name, code := range snap.TwoFactor {
		s.TwoFactor[name] = &code
	}
	for id, p := range snap.Pending {
		s.Pending[id] = &p
	}
	for _, body := range snap.Payloads {
		s.Payloads.Add(body, len(body))
	}
	for _, m := range snap.Sent {
		s.Sent.Add(m, 0)
	}
	for _, c := range snap.Customers {
		s.Customers.Put(c.ID, &c)
		s.Seeded(c.ID)
	}
	for _, a := range snap.Applications {
		a = a.Clone()
		s.Applications.Put(a.ID, &a)
		s.Seeded(a.ID)
	}
	for _, l := range snap.Loans {
		l = l.Clone()
		s.Loans.Put(l.ID, &l)
		s.Seeded(l.ID)
	}
	for _, sub := range snap.Subscriptions {
		sub = sub.Clone()
		s.Subscriptions.Put(sub.ID, &sub)
		s.Seeded(sub.ID)
	}
}

// Check checks the rules that handlers rely on.
func Check(snap record.Snapshot) error {
	if snap.Sequences == nil || snap.Time.IsZero() {
		return errors.New("the snapshot was not made by a service")
	}
	known := map[string]bool{}
	var faults []error
	need := func(what, id string) {
		if !known[what+id] {
			faults = append(faults, fmt.Errorf("the snapshot has no %s %q", what, id))
		}
	}
	once := func(what, id string) {
		if known[what+id] {
			faults = append(faults, fmt.Errorf("the snapshot has the %s %q twice", what, id))
		}
		known[what+id] = true
	}
	for _, a := range snap.Accounts {
		known["account"+a.Username] = true
	}
	for _, t := range snap.Tokens {
		need("account", t.Username)
	}
	for name := range snap.TwoFactor {
		need("account", name)
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
	for id := range snap.Pending {
		need("loan", id)
	}
	return errors.Join(faults...)
}
