// Package journaltest counts entries of a [lending.JournalStore] up while somebody kills its
// process or what it is in, and holds that what was saved is there.
package journaltest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/lendingapi/lending-go"
)

var states = []lending.CommandState{
	lending.CommandFree, lending.CommandSent, lending.CommandUnknown, lending.CommandUndecided, lending.CommandDone, lending.CommandForgotten,
}

const keys = 5 // of each worker

func keyOf(worker, n int) string { return fmt.Sprintf("worker %d:%d", worker, n) }

// entryOf is what stands under a key at a revision: sizes and scopes change with it.
func entryOf(key string, revision int64) lending.JournalEntry {
	e := lending.JournalEntry{Key: key, Revision: revision, State: states[revision%6]}
	if revision%3 != 0 {
		e.Scope = fmt.Sprint("scope ", revision%3, " of ", key)
	}
	e.Data = []byte(strings.Repeat(fmt.Sprint(key, " ", revision, "\n"), int(revision*7%200)))
	return e
}

func right(e lending.JournalEntry) error {
	if want := entryOf(e.Key, e.Revision); e.State != want.State || e.Scope != want.Scope || !bytes.Equal(e.Data, want.Data) {
		return fmt.Errorf("%q at revision %d has state %q, scope %q and %d bytes of data, which are of another revision", e.Key, e.Revision, e.State, e.Scope, len(e.Data))
	}
	return nil
}

// Count counts the entries of a worker up until ctx ends, and calls saved for each Save that
// had no error. It returns what is wrong with the store; that it fails is not.
func Count(ctx context.Context, store lending.JournalStore, worker int, saved func(key string, revision int64)) error {
	last := map[string]int64{}
	for n := 0; ctx.Err() == nil; n++ {
		key := keyOf(worker, n%keys)
		kept, err := store.Load(ctx, key)
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
		switch err := store.Save(ctx, entry); {
		case err == nil:
			last[key] = revision + 1
			saved(key, revision+1)
		case errors.Is(err, lending.ErrJournalConflict), errors.As(err, new(*lending.ScopeHeldError)):
			return fmt.Errorf("%q, which nobody else saves: %w", key, err)
		}
	}
	return nil
}

// Check returns what is wrong with what is kept, when these revisions were saved.
func Check(ctx context.Context, store lending.JournalStore, saved map[string]int64) error {
	byKey := map[string]lending.JournalEntry{}
	for _, state := range states {
		listed, err := store.List(ctx, lending.JournalFilter{States: []lending.CommandState{state}, Limit: 1 << 20})
		if err != nil {
			return err
		}
		for _, e := range listed {
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
		kept, err := store.Load(ctx, key)
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
	return scopes(ctx, store, byKey)
}

const taker = "taker" // of scopes that are free

// scopes holds that each entry has its scope, and no other.
func scopes(ctx context.Context, store lending.JournalStore, byKey map[string]lending.JournalEntry) error {
	other := lending.JournalEntry{Key: taker, State: lending.CommandSent}
	if kept, err := store.Load(ctx, taker); err != nil {
		return err
	} else if kept != nil {
		other = *kept
	}
	for key, e := range byKey {
		for _, scope := range []string{fmt.Sprint("scope 1 of ", key), fmt.Sprint("scope 2 of ", key), ""} {
			other.Scope = scope
			err := store.Save(ctx, other)
			held, _ := errors.AsType[*lending.ScopeHeldError](err)
			switch {
			case err == nil && (scope == "" || scope != e.Scope):
				other.Revision++
			case held == nil || scope != e.Scope || held.Key != key:
				return fmt.Errorf("%q has scope %q; another takes %q: %v", key, e.Scope, scope, err) //nolint:errorlint // for people
			}
		}
	}
	return nil
}
