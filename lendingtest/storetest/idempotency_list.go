package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lendingapi/lending-go/idempotency/store"
)

func (s idempotencyStore) listPrefix() {
	s.Helper()
	byPrefix := map[string][]store.Entry{}
	for _, name := range []string{"a:1", "a:2", "a", "ab:1", "b:1", "A:1", ":1", "*:1", "?:1", "[a]:1", "a%:1", "a_:1", "{a}:1", "ü:1", "u\u0308:1", "\\:1"} {
		entry := s.save(sent(name, ""))
		for end := range len(name) + 1 {
			byPrefix[name[:end]] = append(byPrefix[name[:end]], entry)
		}
	}
	for _, prefix := range []string{"", "a", "a:", "a:1", "ab", "b:", "A:", ":", "*", "*:", "?:", "[a]:", "a%:", "a_:", "{a}:", "ü:", "u", "\\:"} {
		s.listsAll("the prefix is nothing but bytes", store.Filter{Prefix: prefix}, byPrefix[prefix]...)
	}
	for _, prefix := range []string{"a:3", "a:1 ", "c", "a*", "ü:1?", "sent"} {
		s.lists("no key begins so", store.Filter{Prefix: prefix})
	}
}

func (s idempotencyStore) listStates() {
	s.Helper()
	var all []store.Entry
	for _, state := range allStates {
		entry := sent("key of "+string(state), "")
		entry.State = state
		all = append(all, s.save(entry))
		wait(slack)
	}
	for range 3 {
		for i, state := range allStates {
			s.lists("it has this state", store.Filter{States: []store.State{state}}, all[i])
		}
		s.lists("these have one of the states", store.Filter{States: []store.State{all[4].State, all[1].State}}, all[1], all[4])
		s.lists("all have one of the states", store.Filter{States: allStates}, all...)
		last := len(all) - 1
		all = slices.Concat(all[last:], all[:last]) // each goes on to another state
		for i := range all {
			all[i].State = allStates[i]
			all[i] = s.save(all[i])
			wait(slack)
		}
	}
}

func (s idempotencyStore) listOlder() {
	s.Helper()
	start := time.Now()
	old := s.save(sent("old", ""))
	again := s.save(sent("saved again", ""))
	saved := time.Now()
	wait(short)
	young := time.Now()
	again = s.save(again)
	fresh := s.save(sent("fresh", ""))
	got := s.list(store.Filter{Older: short - slack})
	if took := time.Since(young); took < short-2*slack && len(got) != 1 || len(got) == 0 || !equal(got[0], old) {
		s.Fatalf("List with age %v: got %s, want %s, which was saved %v ago, and nothing that was saved %v ago", short-slack, describedAll(got), described(old), time.Since(saved), took)
	}
	s.listsAll("all are as old as this", store.Filter{}, old, again, fresh)
	s.lists("none is as old as this", store.Filter{Older: long + time.Since(start)})
	s.lists("none is as old as this", store.Filter{Older: 100 * 365 * 24 * time.Hour})
}

func (s idempotencyStore) listOldest() {
	s.Helper()
	kept := map[string]store.Entry{}
	order := strings.Split("cabedf", "")
	save := func(key string, state store.State) {
		s.Helper()
		entry := kept[key]
		entry.Key, entry.State = key, state
		kept[key] = s.save(entry)
		wait(2 * slack)
	}
	for i, key := range order {
		save(key, allStates[i])
	}
	want := func(keys string) (entries []store.Entry) {
		for key := range strings.SplitSeq(keys, "") {
			entries = append(entries, kept[key])
		}
		return entries
	}
	s.lists("the oldest comes first, whatever its key and state", store.Filter{}, want("cabedf")...)
	save("a", store.Forgotten)
	s.lists("a was saved again", store.Filter{}, want("cbedfa")...)
	save("f", store.Sent)
	save("c", store.Done)
	s.lists("three were saved again", store.Filter{}, want("bedafc")...)
	last := time.Duration(1<<63 - 1)
	for _, entry := range s.list(store.Filter{}) {
		if entry.Age > last {
			s.Fatalf("List: got an entry of age %v after one of %v", entry.Age, last)
		}
		last = entry.Age
	}
}

func (s idempotencyStore) listLimit() {
	s.Helper()
	const others, ours = 120, 6
	var all []store.Entry
	for i := range others {
		entry := sent(fmt.Sprintf("another:%d", i), "")
		entry.State = allStates[i%2]
		s.save(entry)
	}
	for i := range ours {
		entry := sent(fmt.Sprintf("ours:%d", ours-i), "")
		entry.State = allStates[i%2]
		all = append(all, s.save(entry))
		wait(slack)
	}
	for limit := 1; limit <= ours; limit++ {
		s.lists("these are the oldest of the prefix", store.Filter{Prefix: "ours:", Limit: limit}, all[:limit]...)
	}
	s.lists("these are the oldest of the state", store.Filter{Prefix: "ours:", States: allStates[1:2], Limit: 2}, all[1], all[3])
	s.lists("the limit is above what there is", store.Filter{Prefix: "ours:", Limit: ours + 1}, all...)
	for _, limit := range []int{others - 1, others + ours, 1000} {
		if got, want := len(s.list(store.Filter{Limit: limit})), min(limit, others+ours); got != want {
			s.Fatalf("List with limit %d of %d entries: got %d", limit, others+ours, got)
		}
	}
}
