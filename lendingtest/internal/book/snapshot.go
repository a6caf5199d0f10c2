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
	return record.Snapshot{
		Time: s.Now(), Customers: s.Customers.Copy(), Applications: s.Applications.Copy(), Loans: s.Loans.Copy(),
		Subscriptions: s.Subscriptions.Copy(), Payloads: s.Payloads.All(), Sent: s.Sent.All(),
		Seed: s.Seed, Sequences: maps.Clone(s.sequences), Codes: s.codes, OldSecrets: maps.Clone(s.oldSecrets),
		Accounts: sorted(s.Accounts), Tokens: sorted(s.tokens), TwoFactor: values(s.TwoFactor), Pending: values(s.Pending),
	}
}

func sorted[T any](rows map[string]*T) (all []T) {
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		all = append(all, *rows[name])
	}
	return all
}

func values[T any](rows map[string]*T) map[string]T {
	all := map[string]T{}
	for name, row := range rows {
		all[name] = *row
	}
	return all
}

func pointers[T any](rows map[string]T) map[string]*T {
	all := map[string]*T{}
	for name, row := range rows {
		all[name] = &row
	}
	return all
}

// Restore replaces the state with a snapshot, but keeps accounts that the snapshot does not have.
func (s *State) Restore(snap record.Snapshot) {
	s.Seed, s.sequences, s.codes = snap.Seed, maps.Clone(snap.Sequences), snap.Codes
	s.tokens, s.sweepAt, s.oldSecrets = map[string]*record.Token{}, 0, map[string]string{}
	s.TwoFactor, s.Pending = pointers(snap.TwoFactor), pointers(snap.Pending)
	maps.Copy(s.oldSecrets, snap.OldSecrets)
	s.Payloads, s.Sent = recent.Log[[]byte]{}, recent.Log[record.Sent]{}
	for _, a := range snap.Accounts {
		s.Accounts[a.Username] = &a
	}
	for _, t := range snap.Tokens {
		s.tokens[t.Token] = &t
	}
	for _, body := range snap.Payloads {
		s.Payloads.Add(body, len(body))
	}
	for _, m := range snap.Sent {
		s.Sent.Add(m, 0)
	}
	s.Tables, s.lag.shown, s.lag.waiting = newTables(), newTables(), map[string][]write{}
	for _, t := range []*Tables{s.Tables, s.lag.shown} {
		t.Customers.load(snap.Customers)
		t.Applications.load(snap.Applications)
		t.Loans.load(snap.Loans)
		t.Subscriptions.load(snap.Subscriptions)
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
