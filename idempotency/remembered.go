package idempotency

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lendingapi/lending-go/idempotency/store"
)

// rememberLimit bounds the save of the records that a mutation has left.
const rememberLimit = 2 * time.Second

// left returns the records after a mutation with this response: the minimum count (-1 if no check
// has counted before) and the UUIDs in the response.
func (d *entryData) left(answer []byte) snapshot {
	s := snapshot{Count: -1, IDs: uuidsIn(string(answer))}
	if d.Before != nil && d.Before.Count >= 0 && d.Adds >= 0 {
		s.Count = d.Before.Count + d.Adds
	}
	return s
}

// rememberedKey is the key of the entry of a lock. The character # is not allowed in a namespace, so
// no key of a caller is equal.
func (s *settings) rememberedKey(lock string) string { return s.Namespace + "#" + lock }

// recall returns the records that the last mutations of a lock have left. The snapshot is nil after
// MaxLateness, when reads show these records.
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

// remember saves the records that a mutation has left, before the mutation frees its lock.
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

// with returns the records after two mutations.
func (s snapshot) with(other snapshot) snapshot {
	both := snapshot{Count: max(s.Count, other.Count), IDs: slices.Concat(s.IDs, other.IDs)}
	if s.Count < 0 || other.Count < 0 {
		both.Count = -1
	}
	slices.Sort(both.IDs)
	both.IDs = slices.Compact(both.IDs)
	return both
}

// since adds to s the records that the last mutations of the lock have left. A late read may not
// show these records yet; without since, they would later look like the effect of this mutation.
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
