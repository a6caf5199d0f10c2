// Package idempotencytest tests whether a [store.Store] keeps every saved entry while its
// process or its server is killed.
package idempotencytest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/lendingapi/lending-go/idempotency/store"
)

var states = []store.State{
	store.Free, store.Sent, store.InDoubt, store.NeedsReview, store.Done, store.Forgotten,
}

const keys = 5 // per worker

func keyOf(worker, n int) string { return fmt.Sprintf("worker %d:%d", worker, n) }

// entryOf returns the entry of a key at a revision. Size and lock depend on the revision.
func entryOf(key string, revision int64) store.Entry {
	e := store.Entry{Key: key, Revision: revision, State: states[revision%6]}
	if revision%3 != 0 {
		e.Lock = fmt.Sprint("lock ", revision%3, " of ", key)
	}
	e.Data = []byte(strings.Repeat(fmt.Sprint(key, " ", revision, "\n"), int(revision*7%200)))
	return e
}

func right(e store.Entry) error {
	if want := entryOf(e.Key, e.Revision); e.State != want.State || e.Lock != want.Lock || !bytes.Equal(e.Data, want.Data) {
		return fmt.Errorf("%q at revision %d has state %q, lock %q and %d bytes of data, which are of another revision", e.Key, e.Revision, e.State, e.Lock, len(e.Data))
	}
	return nil
}

// Count increments the entries of a worker until ctx ends, and calls saved after each successful
// Save. Count returns an error if the store returns wrong data. Errors of the store itself are
// expected.
func Count(ctx context.Context, entries store.Store, worker int, saved func(key string, revision int64)) error {
	last := map[string]int64{}
	for n := 0; ctx.Err() == nil; n++ {
		key := keyOf(worker, n%keys)
		kept, err := entries.Load(ctx, key)
		if err != nil {
			continue
		}
		var revision int64
		if kept != nil {
			revision = kept.Revision
			if err := right(*kept); err != nil {
				return err
			}
		}
		if revision < last[key] {
			return fmt.Errorf("%q was saved with revision %d, and has %d", key, last[key], revision)
		}
		entry := entryOf(key, revision+1)
		entry.Revision = revision
		switch err := entries.Save(ctx, entry); {
		case err == nil:
			last[key] = revision + 1
			saved(key, revision+1)
		case errors.Is(err, store.ErrConflict), errors.As(err, new(*store.LockedError)):
			return fmt.Errorf("%q, which nobody else saves: %w", key, err)
		}
	}
	return nil
}

// Check returns an error unless the store has the saved revisions.
func Check(ctx context.Context, entries store.Store, saved map[string]int64) error {
	byKey := map[string]store.Entry{}
	for _, state := range states {
		for e, err := range store.All(ctx, entries, store.Filter{States: []store.State{state}, Limit: 1000}) {
			if err != nil {
				return err
			}
			if e.Key == taker {
				continue
			}
			if _, twice := byKey[e.Key]; twice || e.State != state {
				return fmt.Errorf("%q is listed as %q, and as %q", e.Key, state, byKey[e.Key].State)
			}
			if err := right(e); err != nil {
				return err
			}
			byKey[e.Key] = e
		}
	}
	for key, revision := range saved {
		kept, err := entries.Load(ctx, key)
		if err != nil {
			return err
		}
		if kept == nil || kept.Revision < revision {
			return fmt.Errorf("%q was saved with revision %d, and has %v", key, revision, kept)
		}
		if listed := byKey[key]; listed.Revision != kept.Revision {
			return fmt.Errorf("%q has revision %d, and is listed with %d", key, kept.Revision, listed.Revision)
		}
	}
	return locks(ctx, entries, byKey)
}

const taker = "taker" // takes free locks

// locks returns an error unless each entry has its lock and no other.
func locks(ctx context.Context, entries store.Store, byKey map[string]store.Entry) error {
	other := store.Entry{Key: taker, State: store.Sent}
	if kept, err := entries.Load(ctx, taker); err != nil {
		return err
	} else if kept != nil {
		other = *kept
	}
	for key, e := range byKey {
		for _, lock := range []string{fmt.Sprint("lock 1 of ", key), fmt.Sprint("lock 2 of ", key), ""} {
			other.Lock = lock
			err := entries.Save(ctx, other)
			held, _ := errors.AsType[*store.LockedError](err)
			switch {
			case err == nil && (lock == "" || lock != e.Lock):
				other.Revision++
			case held == nil || lock != e.Lock || held.Key != key:
				return fmt.Errorf("%q has lock %q; another takes %q: %v", key, e.Lock, lock, err) //nolint:errorlint // a text for people
			}
		}
	}
	return nil
}
