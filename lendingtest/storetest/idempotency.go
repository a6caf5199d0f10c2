package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lendingapi/lending-go/idempotency/store"
)

// IdempotencyStore tests the contract of a [store.Store]. The place function makes an empty
// place, for example a table, and returns a function that opens the store there. The suite calls
// open several times, like several processes. Stores that are open at the same time must share
// their entries.
//
//   - If the store allows a single process, open first closes the previous store.
//   - If the store keeps its entries in memory, open returns the same store again, and the suite
//     does not test survival.
func IdempotencyStore(t *testing.T, place func(t *testing.T) (open func() store.Store)) {
	t.Helper()
	run(t, idempotencyRules, func(t *testing.T) idempotencyStore {
		t.Helper()
		return idempotencyStore{begin(t, place(t))}
	})
}

var idempotencyRules = []rule[idempotencyStore]{
	{"a new store is empty", idempotencyStore.empty},
	{"Load returns the saved entry unchanged, also of a newer release", idempotencyStore.asItWas},
	{"keys and locks differ in every byte", idempotencyStore.names},
	{"Save refuses another revision", idempotencyStore.otherRevision},
	{"a lock has one entry", idempotencyStore.oneLock},
	{"a released lock is free", idempotencyStore.lockGivenUp},
	{"Save refuses the lock of another entry and changes nothing", idempotencyStore.otherLock},
	{"Replace saves the entries whose revision matches", idempotencyStore.replaces},
	{"Replace deletes an entry without a state", idempotencyStore.deletes},
	{"Replace takes no lock", idempotencyStore.replaceLocks},
	{"Age is the time since the last Save", idempotencyStore.ages},
	{"List selects by prefix", idempotencyStore.listPrefix},
	{"List selects by state", idempotencyStore.listStates},
	{"List selects by age", idempotencyStore.listOlder},
	{"List returns the oldest first", idempotencyStore.listOldest},
	{"pages of List follow each other", idempotencyStore.listPages},
	{"pages of List miss no entry that changes meanwhile", idempotencyStore.listChanging},
	{"pages of List have a bounded size", idempotencyStore.listBytes},
	{"the caller owns the returned entries", idempotencyStore.own},
	{"one of many parallel Saves succeeds", idempotencyStore.oneSaves},
	{"one of many parallel Replaces succeeds", idempotencyStore.oneReplaces},
	{"one of many parallel keys gets the lock", idempotencyStore.oneLockOfMany},
	{"parallel Saves are not mixed", idempotencyStore.unmixed},
	{"processes share the entries", idempotencyStore.shared},
	{"saved entries survive their process", idempotencyStore.survives},
	{"methods return when their context has ended", idempotencyStore.contexts},
}

type idempotencyStore struct{ trial[store.Store] }

var allStates = []store.State{
	store.Free, store.Sent, store.InDoubt, store.NeedsReview, store.Done, store.Forgotten,
}

func sent(key, lock string) store.Entry {
	return store.Entry{Key: key, State: store.Sent, Lock: lock, Data: []byte("data of " + key)}
}

func (s idempotencyStore) save(entry store.Entry) store.Entry {
	s.Helper()
	err := s.store.Save(s.Context(), entry)
	s.require(err == nil, "Save of %s, when what is kept has its revision and nobody else its lock: %v", described(entry), err)
	entry.Revision++
	return entry
}

func (s idempotencyStore) conflicts(entry store.Entry, why string) {
	s.Helper()
	err := s.store.Save(s.Context(), entry)
	s.require(errors.Is(err, store.ErrConflict), "Save of %s: got error %v, want ErrConflict: %s", described(entry), err, why)
}

func (s idempotencyStore) held(entry store.Entry, by, why string) {
	s.Helper()
	err := s.store.Save(s.Context(), entry)
	held, ok := errors.AsType[*store.LockedError](err)
	s.require(ok && held.Key == by, "Save of %s: got error %v, want a LockedError with the key %.40q: %s", described(entry), err, by, why)
}

func (s idempotencyStore) load(key string) *store.Entry {
	s.Helper()
	entry, err := s.store.Load(s.Context(), key)
	s.require(err == nil, "Load of key %.40q: %v", key, err)
	return entry
}

// loads fails unless Load returns the wanted entry. The age may differ; loads returns the age.
func (s idempotencyStore) loads(want store.Entry, why string) time.Duration {
	s.Helper()
	got := s.load(want.Key)
	s.require(got != nil, "Load of key %.40q: got nil, want %s: %s", want.Key, described(want), why)
	s.require(equal(*got, want), "Load: got %s, want %s: %s", described(*got), described(want), why)
	return got.Age
}

// unchanged fails unless the entry has its age, its state and its lock after a refused Save. The
// entry was saved at least 4 times slack ago.
func (s idempotencyStore) unchanged(entry store.Entry) {
	s.Helper()
	age := s.loads(entry, "the Save has failed")
	s.require(age >= 3*slack, "Load: got age %v after a Save that has failed, want at least %v", age, 3*slack)
	s.lists("the Save has failed", store.Filter{Prefix: entry.Key, States: []store.State{entry.State}}, entry)
	s.held(sent("new", entry.Lock), entry.Key, "a Save that has failed does not give it up")
}

func (s idempotencyStore) nothing(key, why string) {
	s.Helper()
	got := s.load(key)
	s.require(got == nil, "Load of key %.40q: got an entry, want nil: %s", key, why)
}

func (s idempotencyStore) list(filter store.Filter) []store.Entry {
	s.Helper()
	if filter.States == nil {
		filter.States = allStates
	}
	if filter.Limit == 0 {
		filter.Limit = 1000
	}
	entries, err := s.store.List(s.Context(), filter)
	s.succeeds("List", err)
	return entries
}

// lists fails unless List returns these entries in any order.
func (s idempotencyStore) lists(why string, filter store.Filter, want ...store.Entry) {
	s.Helper()
	s.same(why, filter, s.list(filter), want)
}

// same fails unless filter has selected the wanted entries, in any order. The failure shows the first to
// differ by key.
func (s idempotencyStore) same(why string, filter store.Filter, got, want []store.Entry) {
	s.Helper()
	byKey := func(a, b store.Entry) int { return strings.Compare(a.Key, b.Key) }
	got, want = slices.SortedStableFunc(slices.Values(got), byKey), slices.SortedStableFunc(slices.Values(want), byKey)
	for len(got) > 0 && len(want) > 0 && equal(got[0], want[0]) {
		got, want = got[1:], want[1:]
	}
	s.require(len(got)+len(want) == 0, "List with prefix %q, states %q, age %v and limit %d: got %s, want %s: %s",
		filter.Prefix, filter.States, filter.Older, filter.Limit, described(got...), described(want...), why)
}

// equal compares all fields except the age and the position.
func equal(a, b store.Entry) bool {
	return a.Key == b.Key && a.Revision == b.Revision && a.State == b.State && a.Lock == b.Lock && bytes.Equal(a.Data, b.Data)
}

func described(entries ...store.Entry) string {
	text := fmt.Appendf(nil, "%d entries", len(entries))
	for _, e := range entries[:min(len(entries), 8)] {
		text = fmt.Appendf(text, " {%.40q revision %d %q lock %.40q data %.40q of %d bytes}",
			e.Key, e.Revision, e.State, e.Lock, e.Data, len(e.Data))
	}
	return string(text)
}

func (s idempotencyStore) empty() {
	s.nothing("a", "nothing was saved")
	s.lists("nothing was saved", store.Filter{})
	for _, revision := range []int64{1, -1} {
		entry := sent("a", "lock")
		entry.Revision = revision
		s.conflicts(entry, "nothing is kept, which is revision 0")
	}
	s.lists("each Save has failed", store.Filter{})
	s.save(sent("b", "lock"))
	s.nothing("a", "another key was saved")
}

func (s idempotencyStore) asItWas() {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	large := bytes.Repeat(every, 3<<19/len(every)) // 1.5 MiB: more than a response of 1 MiB in base64 within JSON
	states := append([]store.State{"a_later_state"}, allStates...)
	entry := store.Entry{Key: "orders:a", Lock: strings.Repeat("0123456789abcdef", 4)}
	for i, data := range [][]byte{every, nil, large, []byte("{\"a\": \"b\"}\n"), {0}, {}, large[1:], []byte("last")} {
		entry.State, entry.Data = states[i%len(states)], data
		entry = s.save(entry)
		s.loads(entry, "it was saved so")
		s.lists("it was saved so", store.Filter{States: states}, entry)
	}
}

// odd has names like syntax of a store.
var odd = []string{
	"a", "A", "a ", " a", "a:", ":a", "a:b", "a:b:c", ":", "::", "a/b", "a\\b", "a%b", "a%3Ab", "a_b", "*", "?", "a*", "[a]", "[^a]", "{a}", "{b}", "}{", "'", "\"", "`", "a'; --", "$1", "\\x41",
	"ü", "u\u0308", "漢字", "🏦", "(a", "[a", "+", "-", "0", "1", "a|b", "a,b", "a;b", "a\u00a0b", "sent", "sent:a", "done", "entry:a", "lock:a", "index", "clock", "_id", strings.Repeat("k", 256), strings.Repeat("k", 255) + "K", strings.Repeat("漢", 100),
}

func (s idempotencyStore) names() {
	var all []store.Entry
	for i, name := range odd {
		s.nothing(name, "another key was saved")
		entry := sent(name, odd[(i+1)%len(odd)])
		entry.Data = fmt.Appendf(nil, "entry %d", i)
		all = append(all, s.save(entry))
	}
	for i, entry := range all {
		s.loads(entry, "it was saved so, and others after it")
		s.held(sent("new", entry.Lock), entry.Key, "it has the lock")
		if i%2 == 0 {
			entry.Lock = ""
			all[i] = s.save(entry)
		}
	}
	s.lists("these were saved", store.Filter{}, all...)
	for i, entry := range all {
		if entry.Lock != "" {
			s.held(sent("new", entry.Lock), entry.Key, "it has the lock still")
		} else if i+1 < len(odd) {
			s.save(sent("taker of "+odd[i+1], odd[i+1]))
		}
	}
}

func (s idempotencyStore) otherRevision() {
	entry := s.save(s.save(s.save(sent("a", "lock"))))
	wait(4 * slack)
	for _, revision := range []int64{0, 1, 2, 4, 30, 3 + 1<<32, -3, 1 << 53, 1<<53 + 1} {
		other := store.Entry{Key: "a", Revision: revision, State: store.Done, Lock: "another", Data: []byte("refused")}
		s.conflicts(other, "revision 3 is kept")
	}
	s.unchanged(entry)
	s.lists("each Save has failed", store.Filter{States: []store.State{store.Done}})
	s.save(sent("b", "another")) // a Save that has failed does not take it
	entry.State = store.Done
	s.loads(s.save(entry), "it has the revision that is kept")
}

func (s idempotencyStore) oneLock() {
	for _, state := range allStates {
		entry := sent("a of "+string(state), "lock of "+string(state))
		entry.State = state
		entry = s.save(entry)
		for _, other := range allStates {
			refused := sent("b of "+string(state), entry.Lock)
			refused.State = other
			s.held(refused, entry.Key, "it has the lock, whatever its state")
		}
		s.nothing("b of "+string(state), "each Save has failed")
		entry = s.save(entry) // it has the lock itself
		s.loads(entry, "each other Save has failed")
		s.held(sent("b of "+string(state), entry.Lock), entry.Key, "it has the lock still")
	}
	first, second := s.save(sent("no lock", "")), s.save(sent("none either", ""))
	s.loads(first, "an empty lock is none")
	s.loads(second, "an empty lock is none")
}

func (s idempotencyStore) lockGivenUp() {
	a := s.save(sent("a", "first"))
	a.Lock = "second"
	a = s.save(a)
	b := s.save(sent("b", "first"))
	s.held(sent("c", "second"), "a", "it has this one now")
	a.Lock = "first"
	s.held(a, "b", "it was given up, and another has it")
	a.Lock = ""
	a = s.save(a)
	b.Lock = "second"
	b = s.save(b)
	a.Lock = "first"
	s.loads(s.save(a), "the lock was given up by another")
	s.loads(b, "it has the lock that was given up for none")
	s.held(sent("c", "first"), "a", "it has it again")
}

func (s idempotencyStore) otherLock() {
	s.save(sent("a", "taken"))
	b := s.save(sent("b", "own"))
	wait(4 * slack)
	refused := b
	refused.State, refused.Lock, refused.Data = store.Done, "taken", []byte("refused")
	s.held(refused, "a", "it has the lock")
	s.unchanged(b)
	s.lists("the Save has failed", store.Filter{States: []store.State{store.Done}})
	refused.Revision++
	s.conflicts(refused, "a Save that has failed does not count")
	b.State = store.Done
	s.loads(s.save(b), "it has kept its lock")
}

func (s idempotencyStore) ages() {
	entry := sent("a", "lock")
	entry.Age = time.Hour // which Save does not look at
	for range 3 {
		start := time.Now()
		entry = s.save(entry)
		saved := time.Now()
		for i := range 5 {
			wait(time.Duration(i) * slack)
			least := time.Since(saved)
			listed := s.list(store.Filter{})
			s.require(len(listed) == 1, "List: got %s, want the one that was saved", described(listed...))
			for _, age := range []time.Duration{listed[0].Age, s.loads(entry, "it was saved so")} {
				most := time.Since(start)
				s.require(age >= max(least-slack, 0) && age <= most+slack,
					"got age %v of an entry that was saved at least %v and no more than %v ago", age, least, most)
			}
		}
		wait(short / 3)
	}
}

func (s idempotencyStore) own() {
	data := []byte("abc")
	entry := s.save(store.Entry{Key: "a", State: store.Sent, Data: data})
	copy(data, "xyz")
	entry.Data = []byte("abc")
	s.loads(entry, "the bytes that were given to Save were changed after it")
	loaded := s.load("a")
	copy(loaded.Data, "xyz")
	loaded.State, loaded.Lock, loaded.Revision = store.Done, "lock", 17
	s.loads(entry, "an entry that Load had returned was changed")
	listed := s.list(store.Filter{})
	copy(listed[0].Data, "xyz")
	_ = append(listed[0].Data, "xyz"...)
	s.loads(entry, "an entry that List had returned was changed")
	s.lists("an entry that List had returned was changed", store.Filter{}, entry)
}
