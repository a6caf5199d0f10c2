package idempotency

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lendingapi/lending-go/idempotency/store"
)

// rememberLimit is how long a store may take to remember what a mutation has left.
const rememberLimit = 2 * time.Second

// left is what the mutation leaves that has the answer: how many records there are at least,
// -1 if no check has counted them before, and the UUIDs in the answer.
func (d *entryData) left(answer []byte) snapshot {
	s := snapshot{Count: -1, IDs: uuidsIn(string(answer))}
	if d.Before != nil && d.Before.Count >= 0 && d.Adds >= 0 {
		s.Count = d.Before.Count + d.Adds
	}
	return s
}

// rememberedKey is the key of what the mutations of a lock have left. Neither a namespace nor
// the key of a caller behind it can be equal.
func (s *settings) rememberedKey(lock string) string { return s.Namespace + "#" + lock }

// recall returns what the mutations of a lock have left, nil if reads show it by now: they show
// an earlier write after MaxLateness.
func (s *settings) recall(ctx context.Context, lock string) (store.Entry, *snapshot, error) {
	entry, err := s.store.Load(ctx, s.rememberedKey(lock))
	if err != nil || entry == nil {
		return store.Entry{Key: s.rememberedKey(lock)}, nil, err
	}
	data, err := readData(entry.Data)
	if err != nil || entry.Age >= s.MaxLateness {
		return *entry, nil, err
	}
	return *entry, data.Before, nil
}

// remember writes down what a mutation has left, before the mutation frees its lock.
func (s *settings) remember(ctx context.Context, lock string, left snapshot) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), rememberLimit)
	defer stop()
	err := store.ErrConflict
	for range maxTurns {
		var entry store.Entry
		var last *snapshot
		if entry, last, err = s.recall(ctx, lock); err != nil {
			return err
		}
		data := entryData{Route: "lock", Before: &left}
		if last != nil {
			both := left.with(*last)
			data.Before = &both
		}
		entry.State, entry.Data = store.Free, data.bytes()
		if err = s.store.Save(ctx, entry); !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
	return err
}

// with is what is left after both of two mutations.
func (s snapshot) with(other snapshot) snapshot {
	both := snapshot{Count: max(s.Count, other.Count), IDs: slices.Concat(s.IDs, other.IDs)}
	if s.Count < 0 || other.Count < 0 {
		both.Count = -1
	}
	slices.Sort(both.IDs)
	both.IDs = slices.Compact(both.IDs)
	return both
}

// since is a view that is not older than what the last mutations of the lock have left: a read
// may not show them yet, and would show them later for the effect of the next mutation.
func (s snapshot) since(last *snapshot) snapshot {
	if last == nil || s.Count < 0 {
		return s
	}
	missing := func(id string) bool { return !slices.Contains(s.IDs, id) }
	isShown := len(last.IDs) > 0 && !slices.ContainsFunc(last.IDs, missing)
	both := s.with(*last)
	both.State = s.State
	if isShown && last.Count < 0 {
		both.Count = s.Count
	}
	return both
}
