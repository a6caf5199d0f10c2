package storetest

import (
	"bytes"
	"errors"
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
		all = slices.Concat(all[last:], all[:last]) // each entry moves on to another state
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

// many is more entries than a store handles in a batch. The tests of the suite use fewer.
var many = 5_000

// saveMany saves n entries in parallel, with these prefixes and states in turn.
func (s idempotencyStore) saveMany(n int, prefixes []string, states []store.State) []store.Entry {
	s.Helper()
	all := make([]store.Entry, n)
	const several = 64
	atOnce(several, func(worker int) {
		for i := worker; i < n; i += several {
			entry := sent(fmt.Sprintf("%s%d", prefixes[i%len(prefixes)], i), "")
			entry.State = states[i/len(prefixes)%len(states)]
			if err := s.entries.Save(s.Context(), entry); err != nil {
				s.Errorf("Save of %s: %v", described(entry), err)
				return
			}
			entry.Revision++
			all[i] = entry
		}
	})
	if s.Failed() {
		s.FailNow()
	}
	return all
}

// pages lists page after page and calls between after each page. A page has at most entries.
func (s idempotencyStore) pages(filter store.Filter, most int, between func(page []store.Entry)) (all []store.Entry) {
	s.Helper()
	for n := 1; ; n++ {
		page := s.list(filter)
		if len(page) == 0 {
			return all
		}
		if all = append(all, page...); len(page) > filter.Limit || len(all) > most {
			s.Fatalf("List with limit %d: got a page of %d entries, and %d in %d pages so far", filter.Limit, len(page), len(all), n)
		}
		filter.After = page[len(page)-1].Position
		between(page)
	}
}

// listPages pages through many entries with equal times.
func (s idempotencyStore) listPages() {
	s.Helper()
	prefixes := []string{"a:", "b:", "a:", "a/", "a:"}
	all := s.saveMany(many, prefixes, []store.State{store.Done, store.Sent, store.Free})
	few := s.saveMany(60, []string{"few:"}, allStates)
	for _, filter := range []store.Filter{
		{States: allStates, Limit: 3000},
		{Prefix: "a:", States: []store.State{store.Free, store.Done}, Limit: 999},
		{Prefix: "few:", States: []store.State{store.Free, store.Done}, Limit: 7},
		{Prefix: "few:", States: allStates, Limit: 1},
	} {
		isWanted := func(e store.Entry) bool {
			return strings.HasPrefix(e.Key, filter.Prefix) && slices.Contains(filter.States, e.State)
		}
		want := map[string]store.Entry{}
		for _, entry := range slices.Concat(all, few) {
			if isWanted(entry) {
				want[entry.Key] = entry
			}
		}
		got := s.pages(filter, len(want), func([]store.Entry) {})
		for _, entry := range got {
			if !equal(entry, want[entry.Key]) {
				s.Fatalf("pages with prefix %q and states %q: got %s, which was returned before, or is not selected", filter.Prefix, filter.States, described(entry))
			}
			delete(want, entry.Key)
		}
		if len(want) > 0 {
			s.Fatalf("pages with prefix %q and states %q: got %d entries, and missed %d", filter.Prefix, filter.States, len(got), len(want))
		}
	}
	if _, err := s.entries.List(s.Context(), store.Filter{States: allStates, After: "no position", Limit: 1}); !errors.Is(err, store.ErrPosition) {
		s.Fatalf("List after a position that no entry has: got error %v, want ErrPosition", err)
	}
}

// listChanging saves the first and the last entries again, and new entries, between the pages.
func (s idempotencyStore) listChanging() {
	s.Helper()
	const n, limit = 120, 10
	kept := map[string]store.Entry{}
	for i, entry := range s.saveMany(n, []string{"a:"}, allStates) {
		kept[fmt.Sprint("a:", i)] = entry
	}
	seen := map[string][]store.Entry{}
	changed := map[string]bool{}
	page := -1
	all := s.pages(store.Filter{Prefix: "a:", States: allStates, Limit: limit}, 3*n, func([]store.Entry) {
		if page++; page >= n/limit {
			return
		}
		s.save(sent(fmt.Sprint("a:new ", page), ""))
		for _, i := range []int{page * limit, n - 1 - page} {
			key := fmt.Sprint("a:", i)
			entry := kept[key]
			entry.State = allStates[(page+i)%len(allStates)]
			kept[key], changed[key] = s.save(entry), true
		}
	})
	for _, entry := range all {
		seen[entry.Key] = append(seen[entry.Key], entry)
	}
	for key, entry := range kept {
		got := seen[key]
		if len(got) == 0 || len(got) > 1 && !changed[key] || !equal(got[len(got)-1], entry) {
			s.Fatalf("pages, while entries are saved: got %s for an entry that is %s, want it once, or also as it was before if it has changed", describedAll(got), described(entry))
		}
	}
}

func (s idempotencyStore) listBytes() {
	s.Helper()
	const n = 6
	for i := range n {
		entry := sent(fmt.Sprint("large ", i), "")
		entry.Data = bytes.Repeat([]byte{byte(i)}, 5*store.PageBytes/(n-1)/2)
		if i == 0 {
			entry.Data = bytes.Repeat([]byte("x"), store.PageBytes+1)
		}
		s.save(entry)
	}
	for _, prefix := range []string{"", "large"} {
		got := s.pages(store.Filter{Prefix: prefix, States: allStates, Limit: n}, n, func(page []store.Entry) {
			size := 0
			for _, entry := range page {
				size += len(entry.Data)
			}
			if size > store.PageBytes && len(page) > 1 {
				s.Fatalf("List: got %d bytes of data in a page of %d entries, want at most %d", size, len(page), store.PageBytes)
			}
		})
		if len(got) != n {
			s.Fatalf("pages of large entries: got %s, want %d entries", describedAll(got), n)
		}
	}
}
