package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lendingapi/lending-go/idempotency/store"
)

// beside returns the store and, if a second process may open the store at the same time, the
// store of that process.
func (s idempotencyStore) beside() []idempotencyStore {
	s.Helper()
	other := s.open()
	if !sameStore(s.entries, other) {
		if _, err := s.entries.Load(s.Context(), "a"); err != nil {
			s.Log("not tested: that processes share the store; the one before fails when another is opened:", err)
			return []idempotencyStore{{s.TB, s.open, other}}
		}
	}
	return []idempotencyStore{s, {s.TB, s.open, other}}
}

func (s idempotencyStore) shared() {
	s.Helper()
	stores := s.beside()
	one, other := stores[0], stores[len(stores)-1]
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

func (s idempotencyStore) oneOfMany() {
	s.Helper()
	stores := s.beside()
	const several = 16
	entry := sent("a", "lock")
	for round := range 10 {
		var won atomic.Int32
		var winner atomic.Value
		atOnce(several, func(i int) {
			ours := entry
			ours.Data = fmt.Appendf(nil, "round %d, process %d", round, i)
			switch err := stores[i%len(stores)].entries.Save(s.Context(), ours); {
			case err == nil:
				won.Add(1)
				winner.Store(ours.Data)
			case !errors.Is(err, store.ErrConflict):
				s.Errorf("Save by one of many: got error %v, want ErrConflict or success", err)
			}
		})
		if n := won.Load(); n != 1 {
			s.Fatalf("%d of %d that saved one revision at once had no error, want 1", n, several)
		}
		entry.Revision++
		entry.Data, _ = winner.Load().([]byte)
		stores[0].loads(entry, "it was saved by the one that had no error")
	}
}

func (s idempotencyStore) oneLockOfMany() {
	s.Helper()
	stores := s.beside()
	const several = 16
	for round := range 10 {
		lock := fmt.Sprint("lock ", round)
		errs := make([]error, several)
		key := func(i int) string { return fmt.Sprintf("%s, key %d", lock, i) }
		atOnce(several, func(i int) {
			errs[i] = stores[i%len(stores)].entries.Save(s.Context(), sent(key(i), lock))
		})
		winner := ""
		for i, err := range errs {
			if err == nil && winner != "" {
				s.Fatalf("%q and %q both have the lock that they took at once", winner, key(i))
			} else if err == nil {
				winner = key(i)
			}
		}
		for i, err := range errs {
			if held, ok := errors.AsType[*store.LockedError](err); err != nil && (!ok || held.Key != winner) {
				s.Fatalf("Save of %q, one of many that took a lock: got error %v, want success for one, and for the others a LockedError with its key, which is %q", key(i), err, winner)
			}
			if err != nil {
				stores[0].nothing(key(i), "the Save has failed")
			}
		}
	}
}

// unmixed has many goroutines increment counters. Each goroutine reads the entries of the others.
func (s idempotencyStore) unmixed() {
	s.Helper()
	stores := s.beside()
	const several, each, keys = 8, 12, 2
	text := func(key string, revision int64) []byte {
		return []byte(strings.Repeat(fmt.Sprint(key, " ", revision, "\n"), 300))
	}
	right := func(e store.Entry) bool {
		return bytes.Equal(e.Data, text(e.Key, e.Revision)) && e.State == allStates[e.Revision%6] && e.Lock == fmt.Sprint(e.Key, e.Revision%3)
	}
	var saves [keys]atomic.Int64
	atOnce(several, func(i int) {
		entries := stores[i%len(stores)].entries
		for n := range each {
			key := fmt.Sprint("key ", (i+n)%keys)
			entry, err := entries.Load(s.Context(), key)
			if err == nil && entry != nil && !right(*entry) {
				err = errors.New("mixed: " + described(*entry))
			}
			if err != nil {
				s.Errorf("Load beside many that save: %v", err)
				return
			}
			if entry == nil {
				entry = &store.Entry{Key: key}
			}
			next := entry.Revision + 1
			entry.State, entry.Lock, entry.Data = allStates[next%6], fmt.Sprint(key, next%3), text(key, next)
			if err = entries.Save(s.Context(), *entry); err == nil {
				saves[(i+n)%keys].Add(1)
			} else if !errors.Is(err, store.ErrConflict) {
				s.Errorf("Save by one of many: got error %v, want ErrConflict or success", err)
				return
			}
			listed, err := entries.List(s.Context(), store.Filter{States: allStates, Limit: 10})
			for _, e := range listed {
				if !right(e) {
					err = errors.New("mixed: " + described(e))
				}
			}
			if err != nil {
				s.Errorf("List beside many that save: %v", err)
			}
		}
	})
	for i := range saves {
		entry := stores[0].load(fmt.Sprint("key ", i))
		if entry == nil {
			entry = &store.Entry{}
		}
		if entry.Revision != saves[i].Load() {
			s.Fatalf("Load after many have saved an entry %d times: got %s, want that revision", saves[i].Load(), described(*entry))
		}
	}
	if listed := stores[0].list(store.Filter{}); len(listed) != keys {
		s.Fatalf("List after many have saved %d entries: got %s", keys, describedAll(listed))
	}
}

func (s idempotencyStore) survives() {
	s.Helper()
	var all []store.Entry
	start := time.Now()
	for i, state := range allStates {
		entry := sent(fmt.Sprint("key ", i), fmt.Sprint("lock ", i))
		entry.State = state
		entry = s.save(entry)
		entry.Data = bytes.Repeat([]byte{byte(i), 0xff}, 1000*i)
		all = append(all, s.save(entry))
		wait(2 * slack)
	}
	before, saved := s.entries, time.Now()
	wait(4 * slack)
	if s.entries = s.open(); sameStore(before, s.entries) {
		s.Log("not tested: the store ends with its process, the same was opened again")
		return
	}
	for _, entry := range all {
		least := time.Since(saved)
		if age := s.loads(entry, "another process has saved it"); age < least-slack || age > time.Since(start)+slack {
			s.Fatalf("Load in the next process: got age %v of an entry that was saved at least %v and no more than %v ago", age, least, time.Since(start))
		}
		s.held(sent("new", entry.Lock), entry.Key, "another process has saved it")
	}
	s.lists("another process has saved them", store.Filter{}, all...)
	all[0].Lock = ""
	all[0] = s.save(all[0])
	s.save(sent("new", "lock 0"))
	s.entries = s.open()
	s.loads(all[0], "the second process has saved it")
	s.held(sent("third", "lock 0"), "new", "the second process has saved it")
}

// sameStore reports whether open returned the same store again.
func sameStore(one, other store.Store) bool {
	return reflect.TypeOf(one) == reflect.TypeOf(other) && reflect.TypeOf(one).Comparable() && one == other
}

func (s idempotencyStore) contexts() {
	s.Helper()
	kept := s.save(sent("kept", "lock"))
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	var saved error
	for name, call := range map[string]func(){
		"Load": func() { _, _ = s.entries.Load(ctx, "kept") },
		"List": func() {
			_, _ = s.entries.List(ctx, store.Filter{States: allStates, Limit: 10})
		},
		"Replace": func() { _, _ = s.entries.Replace(ctx, []store.Entry{sent("a", "another")}) },
		"Save":    func() { saved = s.entries.Save(ctx, sent("a", "another")) },
	} {
		if !returns(call) {
			s.Fatalf("%s has not returned %v after the end of its context", name, patience)
		}
	}
	if saved == nil && s.load("a") == nil {
		s.Fatalf("Save with a context that has ended: got no error, though nothing is kept")
	}
	s.loads(kept, "calls whose context had ended must not change it")
	s.loads(s.save(kept), "calls whose context had ended must not be in its way")
}
