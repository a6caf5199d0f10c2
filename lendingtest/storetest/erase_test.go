package storetest

import (
	"context"
	"encoding/hex"
	"testing"

	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/webhook"
)

// erasing is a store and an inbox with a flaw in erasing.
type erasing struct {
	store.Store
	*webhook.MemoryInbox
	flaw  string
	trash string
}

func (e *erasing) Save(ctx context.Context, entry store.Entry) error {
	e.trash += hex.EncodeToString(entry.Data)
	return e.Store.Save(ctx, entry)
}

func (e *erasing) List(ctx context.Context, filter store.Filter) ([]store.Entry, error) {
	if e.flaw == "lists no done entry" && len(filter.States) > 1 {
		filter.States = []store.State{store.Free}
	}
	return e.Store.List(ctx, filter)
}

func (e *erasing) Erase(ctx context.Context, by webhook.Decision, ids ...string) (int, error) {
	if e.flaw == "erases no event" {
		return 0, nil
	}
	return e.MemoryInbox.Erase(ctx, by, ids...)
}

func (e *erasing) dump() (all string) {
	switch e.flaw {
	case "dumps nothing":
		return ""
	case "keeps the earlier data":
		return e.trash
	}
	states := store.Filter{States: allStates, Limit: 100}
	entries, _ := e.Store.List(context.Background(), states)
	for _, entry := range entries {
		all += entry.Key + string(entry.Data)
	}
	return all
}

func TestStoresThatDoNotEraseAreFound(t *testing.T) {
	t.Parallel()
	const name = "no dump shows an erased customer"
	rules := []rule[func()]{{name, func(erase func()) { erase() }}}
	eachFlaw(t, rules, func(tb testing.TB, flaw string) func() {
		tb.Helper()
		e := &erasing{Store: store.NewMemory(), MemoryInbox: webhook.NewMemoryInbox(), flaw: flaw}
		return func() { Erase(tb, e, e, e.dump) }
	}, map[string][]string{
		name: {"keeps the earlier data", "dumps nothing", "lists no done entry", "erases no event"},
	})
}
