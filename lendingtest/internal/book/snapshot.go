package book

import (
	"maps"
	"slices"

	"github.com/lendingapi/lending-go/lendingtest/record"
)

// Snapshot returns a deep copy of the records.
func (s *State) Snapshot() record.Snapshot {
	snap := record.Snapshot{
		Time: s.Now(), Customers: s.Customers.Copy(), Applications: s.Applications.Copy(), Loans: s.Loans.Copy(),
		Subscriptions: s.Subscriptions.Copy(), Payloads: s.Payloads.All(), Sent: s.Sent.All(),
	}
	for _, name := range slices.Sorted(maps.Keys(s.Accounts)) {
		snap.Accounts = append(snap.Accounts, *s.Accounts[name])
	}
	return snap
}
