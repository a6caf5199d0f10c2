package storetest

import (
	"fmt"

	"github.com/lendingapi/lending-go/idempotency/store"
)

func (s idempotencyStore) replace(why string, want int, entries ...store.Entry) {
	s.Helper()
	got, err := s.store.Replace(s.Context(), entries)
	s.require(err == nil && got == want, "Replace of %s: got %d and error %v, want %d: %s", described(entries...), got, err, want, why)
}

// replaces passes more entries than a store handles in a batch. A third of the entries have
// another revision, and an entry is not stored.
func (s idempotencyStore) replaces() {
	all := s.saveMany(min(many, 1500), []string{"a:"}, []store.State{store.Done})
	next := []store.Entry{{Key: "new", Revision: 1, State: store.Sent}}
	wait(4 * slack)
	var replaced []store.Entry
	for i, entry := range all {
		entry.State, entry.Data = store.Forgotten, fmt.Appendf(nil, "replaced %d", i)
		if i%3 == 0 {
			entry.Revision += int64(i%2)*2 - 1 // a lower or a higher revision
		}
		next = append(next, entry)
		if i%3 != 0 {
			entry.Revision++
			all[i] = entry
			replaced = append(replaced, entry)
		}
	}
	s.replace("a third has another revision, and one is not kept", len(replaced), next...)
	s.replace("their revisions are kept no more", 0, next...)
	s.replace("there are none", 0)
	s.nothing("new", "it was not kept before")
	for i, entry := range all {
		if i%100 < 6 {
			age := s.loads(entry, "Replace has its revision, or leaves it out")
			s.require(i%3 != 0 || age >= 3*slack, "Load: got age %v, want at least %v: Replace has left it out", age, 3*slack)
		}
	}
	forgotten := store.Filter{Prefix: "a:", States: []store.State{store.Forgotten}, Limit: 1000}
	s.same("these were replaced", forgotten, s.pages(forgotten, len(replaced), func([]store.Entry) {}), replaced)
	s.store = s.open()
	s.loads(all[1], "the process before has replaced it")
}

func (s idempotencyStore) deletes() {
	a, b := s.save(sent("a", "lock of a")), s.save(s.save(sent("b", "lock of b")))
	deleted := func(entry store.Entry) store.Entry {
		entry.State = ""
		return entry
	}
	old := deleted(b)
	old.Revision--
	s.replace("one has another revision", 1, deleted(a), old)
	s.nothing("a", "it was deleted")
	s.lists("the other was deleted", store.Filter{}, b)
	s.held(sent("c", "lock of b"), "b", "it was not deleted")
	s.replace("the other was deleted", 1, deleted(a), deleted(b))
	s.save(sent("c", "lock of b"))
	s.save(sent("d", "lock of a"))
	a = s.save(sent("a", ""))
	s.loads(a, "it begins anew")
	s.store = s.open()
	s.loads(a, "it begins anew")
	s.nothing("b", "it was deleted")
}

func (s idempotencyStore) replaceLocks() {
	keeps, gives, takes := s.save(sent("keeps", "first")), s.save(sent("gives", "second")), s.save(sent("takes", "third"))
	gives.Lock, takes.Lock = "", "free"
	s.replace("all have their revision", 3, keeps, gives, takes)
	keeps.Revision++
	gives.Revision++
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
