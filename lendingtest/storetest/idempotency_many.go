package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lendingapi/lending-go/idempotency/store"
)

// beside returns the store and the store of a second process, or only that of the second process
// twice if the first no longer works then.
func (s idempotencyStore) beside() [2]idempotencyStore {
	s.Helper()
	other := idempotencyStore{begin(s.TB, s.open)}
	if _, err := s.store.Load(s.Context(), "a"); err != nil {
		s.Log("not tested: that processes share the store; the one before fails when another is opened:", err)
		return [2]idempotencyStore{other, other}
	}
	return [2]idempotencyStore{s, other}
}

func (s idempotencyStore) shared() {
	stores := s.beside()
	one, other := stores[0], stores[1]
	entry := one.save(sent("a", "lock"))
	other.loads(entry, "another process has saved it")
	other.lists("another process has saved it", store.Filter{}, entry)
	other.held(sent("b", "lock"), "a", "another process has saved it")
	next := other.save(entry)
	one.conflicts(entry, "another process has saved it")
	one.loads(next, "another process has saved it")
	next.Lock = ""
	other.save(next)
	one.save(sent("b", "lock"))
}

func (s idempotencyStore) oneSaves() {
	s.oneOfMany(sent("a", "lock"), func(entries store.Store, entry store.Entry) error {
		return entries.Save(s.Context(), entry)
	})
}

func (s idempotencyStore) oneReplaces() {
	s.oneOfMany(s.save(sent("a", "lock")), func(entries store.Store, entry store.Entry) error {
		n, err := entries.Replace(s.Context(), []store.Entry{entry})
		if err == nil && n != 1 {
			err = store.ErrConflict
		}
		return err
	})
}

// oneOfMany writes each revision of the entry several times at once.
func (s idempotencyStore) oneOfMany(entry store.Entry, write func(store.Store, store.Entry) error) {
	stores := s.beside()
	for round := range 10 {
		ours := func(i int) store.Entry {
			ours := entry
			ours.Data = fmt.Appendf(nil, "round %d, process %d", round, i)
			return ours
		}
		winner := stores[0].oneWins(store.ErrConflict, func(i int) error { return write(stores[i%2].store, ours(i)) })
		entry = ours(winner)
		entry.Revision++
		stores[0].loads(entry, "it was written by the one that had no error")
	}
}

func (s idempotencyStore) oneLockOfMany() {
	stores := s.beside()
	errTaken := errors.New("a LockedError")
	for round := range 10 {
		var holders [racers]string
		lock := fmt.Sprint("lock ", round)
		key := func(i int) string { return fmt.Sprintf("%s, key %d", lock, i) }
		winner := stores[0].oneWins(errTaken, func(i int) error {
			err := stores[i%2].store.Save(s.Context(), sent(key(i), lock))
			if locked, ok := errors.AsType[*store.LockedError](err); ok {
				holders[i], err = locked.Key, errTaken
			}
			return err
		})
		for i, holder := range holders {
			if i != winner {
				s.require(holder == key(winner), "Save: got a LockedError with the key %q, want %q", holder, key(winner))
				stores[0].nothing(key(i), "the Save has failed")
			}
		}
	}
}

// unmixed has two writers, each of a key, and readers, who must see each revision as it was saved.
func (s idempotencyStore) unmixed() {
	stores := s.beside()
	const saves = 24
	at := func(key string, revision int64) store.Entry {
		data := strings.Repeat(fmt.Sprint(key, " ", revision, "\n"), 300)
		return store.Entry{
			Key: key, Revision: revision, State: allStates[revision%6], Lock: fmt.Sprint(key, revision%3), Data: []byte(data),
		}
	}
	s.atOnce(8, func(i int) error {
		entries := stores[i%2].store
		for n := range int64(saves) {
			if i < 2 {
				next := at(fmt.Sprint("key ", i), n+1)
				next.Revision = n
				if err := entries.Save(s.Context(), next); err != nil {
					return fmt.Errorf("Save by the only writer: %w", err)
				}
				continue
			}
			seen, err := entries.List(s.Context(), store.Filter{States: allStates, Limit: 10})
			entry, failed := entries.Load(s.Context(), fmt.Sprint("key ", n%2))
			if err != nil || failed != nil {
				return errors.Join(err, failed)
			}
			if entry != nil {
				seen = append(seen, *entry)
			}
			for _, e := range seen {
				if !equal(e, at(e.Key, e.Revision)) {
					return errors.New("mixed: " + described(e))
				}
			}
		}
		return nil
	})
	stores[0].lists("each was saved so often", store.Filter{}, at("key 0", saves), at("key 1", saves))
}

func (s idempotencyStore) survives() {
	var all []store.Entry
	start := time.Now()
	for i, state := range allStates {
		entry := sent(fmt.Sprint("key ", i), fmt.Sprint("lock ", i))
		entry.State = state
		entry = s.save(entry)
		entry.Data = bytes.Repeat([]byte{byte(i), 0xff}, 1000*i)
		all = append(all, s.save(entry))
	}
	saved := time.Now()
	wait(4 * slack)
	s.next()
	for _, entry := range all {
		least := time.Since(saved)
		age := s.loads(entry, "another process has saved it")
		s.require(age >= least-slack && age <= time.Since(start)+slack,
			"Load in the next process: got age %v of an entry that was saved at least %v and no more than %v ago", age, least, time.Since(start))
		s.held(sent("new", entry.Lock), entry.Key, "another process has saved it")
	}
	s.lists("another process has saved them", store.Filter{}, all...)
	all[0].Lock = ""
	all[0] = s.save(all[0])
	s.save(sent("new", "lock 0"))
	s.next()
	s.loads(all[0], "the second process has saved it")
	s.held(sent("third", "lock 0"), "new", "the second process has saved it")
}

func (s idempotencyStore) contexts() {
	kept := s.save(sent("kept", "lock"))
	var saved error
	s.endedContext(map[string]func(context.Context){
		"Load": func(ctx context.Context) { _, _ = s.store.Load(ctx, "kept") },
		"List": func(ctx context.Context) {
			_, _ = s.store.List(ctx, store.Filter{States: allStates, Limit: 10})
		},
		"Replace": func(ctx context.Context) { _, _ = s.store.Replace(ctx, []store.Entry{sent("a", "another")}) },
		"Save":    func(ctx context.Context) { saved = s.store.Save(ctx, sent("a", "another")) },
	})
	s.require(saved != nil || s.load("a") != nil, "Save with a context that has ended: got no error, though nothing is kept")
	s.loads(kept, "calls whose context had ended must not change it")
	s.loads(s.save(kept), "calls whose context had ended must not be in its way")
}
