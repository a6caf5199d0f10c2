package storetest

import (
	"fmt"
	"sync/atomic"

	"github.com/lendingapi/lending-go/idempotency/store"
)

// replace fails unless Replace replaces this number of entries.
func (s idempotencyStore) replace(why string, want int, entries ...store.Entry) {
	s.Helper()
	if got, err := s.entries.Replace(s.Context(), entries); err != nil || got != want {
		s.Fatalf("Replace of %s: got %d and error %v, want %d: %s", describedAll(entries), got, err, want, why)
	}
}

// replaces passes more entries than a store handles in a batch. A third of the entries have
// another revision, and an entry is not stored.
func (s idempotencyStore) replaces() {
	s.Helper()
	n := min(many, 1500)
	all := s.saveMany(n, []string{"a:"}, []store.State{store.Done})
	next := append([]store.Entry{sent("new", "")}, all...)
	next[0].Revision = 1
	wait(4 * slack)
	want := 0
	for i := range all {
		entry := &next[i+1]
		entry.State, entry.Data = store.Forgotten, fmt.Appendf(nil, "replaced %d", i)
		if i%3 == 0 {
			entry.Revision += int64(i%2)*2 - 1 // a lower or a higher revision
			continue
		}
		want++
		all[i] = *entry
		all[i].Revision++
	}
	s.replace("a third has another revision, and one is not kept", want, next...)
	s.replace("their revisions are kept no more", 0, next...)
	s.replace("there are none", 0)
	s.nothing("new", "it was not kept before")
	for i, entry := range all {
		if i%100 < 6 {
			age := s.loads(entry, "Replace has its revision, or leaves it out")
			if i%3 == 0 && age < 3*slack {
				s.Fatalf("Load of %s: got age %v, want at least %v: Replace has left it out", described(entry), age, 3*slack)
			}
		}
	}
	forgotten := store.Filter{Prefix: "a:", States: []store.State{store.Forgotten}, Limit: 1000}
	if got := s.pages(forgotten, want, func([]store.Entry) {}); len(got) != want {
		s.Fatalf("List: got %d entries in the state that Replace has given to %d", len(got), want)
	}
	if s.entries = s.open(); want > 0 {
		s.loads(all[1], "the process before has replaced it")
	}
}

func (s idempotencyStore) deletes() {
	s.Helper()
	a, b := s.save(sent("a", "lock of a")), s.save(s.save(sent("b", "lock of b")))
	old := b
	old.Revision--
	a.State, b.State, old.State = "", "", ""
	s.replace("one has another revision", 1, a, old)
	s.nothing("a", "it was deleted")
	b.State = store.Sent
	s.lists("the other was deleted", store.Filter{}, b)
	s.lists("it was deleted", store.Filter{Prefix: "a"})
	s.held(sent("c", "lock of b"), "b", "it was not deleted")
	b.State = ""
	s.replace("both are deleted", 1, a, b)
	s.save(sent("c", "lock of b"))
	s.save(sent("d", "lock of a"))
	a = s.save(sent("a", ""))
	s.loads(a, "it begins anew")
	s.entries = s.open()
	s.loads(a, "it begins anew")
	s.nothing("b", "it was deleted")
}

func (s idempotencyStore) replaceLocks() {
	s.Helper()
	keeps, gives, takes := s.save(sent("keeps", "first")), s.save(sent("gives", "second")), s.save(sent("takes", "third"))
	gives.Lock, takes.Lock = "", "free"
	s.replace("all have their revision", 3, keeps, gives, takes)
	for _, entry := range []*store.Entry{&keeps, &gives, &takes} {
		entry.Revision++
	}
	s.loads(keeps, "it has the lock that it had")
	s.loads(gives, "it has given its lock up")
	s.held(sent("new", "first"), "keeps", "Replace has kept it")
	s.save(sent("b", "second"))
	s.save(sent("c", "third"))
	s.save(sent("d", "free"))
	keeps.Lock = "second"
	s.replace("it has its revision", 1, keeps)
	s.held(sent("new", "second"), "b", "Replace takes no lock")
	s.save(sent("e", "first"))
}

func (s idempotencyStore) oneReplaces() {
	s.Helper()
	stores := s.beside()
	entry := stores[0].save(sent("a", "lock"))
	for round := range 10 {
		var replaced atomic.Int64
		atOnce(8, func(i int) {
			ours := entry
			ours.Data = fmt.Appendf(nil, "round %d, process %d", round, i)
			n, err := stores[i%len(stores)].entries.Replace(s.Context(), []store.Entry{ours})
			if err != nil {
				s.Errorf("Replace by one of many: %v", err)
			}
			replaced.Add(int64(n))
		})
		if n := replaced.Load(); n != 1 {
			s.Fatalf("many have replaced one revision %d times, want once", n)
		}
		entry.Revision++
	}
}
