package book

import (
	"maps"
	"slices"

	"github.com/lendingapi/lending-go/lendingtest/record"
)

// Snapshot returns a deep copy of the records.
func (s *State) Snapshot() record.Snapshot {
	snap := record.Snapshot{
		Time: s.Now(), Customers: copies[record.Customer](s), Applications: copies[record.Application](s),
		Loans: copies[record.Loan](s), Subscriptions: copies[record.Subscription](s), Sent: s.Sent.All(),
	}
	for _, name := range slices.Sorted(maps.Keys(s.Accounts)) {
		snap.Accounts = append(snap.Accounts, *s.Accounts[name])
	}
	return snap
}

func copies[T any](s *State) []T {
	all := []T{}
	for _, row := range All[T](s.Tables) {
		all = append(all, *clone(row).(*T))
	}
	return all
}
