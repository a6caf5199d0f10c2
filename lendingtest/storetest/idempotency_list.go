package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/lendingapi/lending-go/idempotency/store"
)

func (s idempotencyStore) listPrefix() {
	byPrefix := map[string][]store.Entry{}
	for _, name := range []string{
		"a:1", "a:2", "a", "ab:1", "b:1", "A:1", ":1", "*:1", "?:1", "[a]:1", "a%:1", "a_:1", "{a}:1", "ü:1", "u\u0308:1", "\\:1",
	} {
		entry := s.save(sent(name, ""))
		for end := range len(name) + 1 {
			byPrefix[name[:end]] = append(byPrefix[name[:end]], entry)
		}
	}
	for _, prefix := range []string{
		"", "a", "a:", "a:1", "ab", "b:", "A:", ":", "*", "*:", "?:", "[a]:", "a%:", "a_:", "{a}:", "ü:", "u", "\\:",
		"a:3", "a:1 ", "c", "a*", "ü:1?", "sent", // of no key
	} {
		s.lists("the prefix is nothing but bytes", store.Filter{Prefix: prefix}, byPrefix[prefix]...)
	}
}

func (s idempotencyStore) listStates() {
	all := make([]store.Entry, len(allStates))
	for round := range 4 { // each entry moves on to another state
		for i := range all {
			all[i].Key, all[i].State = fmt.Sprint("key ", i), allStates[(i+round)%len(allStates)]
			all[i] = s.save(all[i])
		}
		for _, entry := range all {
			s.lists("it has this state", store.Filter{States: []store.State{entry.State}}, entry)
		}
		two := []store.State{all[4].State, all[1].State}
		s.lists("these have one of the states", store.Filter{States: two}, all[1], all[4])
		s.lists("all have one of the states", store.Filter{States: allStates}, all...)
	}
}

func (s idempotencyStore) listOlder() {
	start := time.Now()
	old := s.save(sent("old", ""))
	again := s.save(sent("saved again", ""))
	wait(short)
	young := time.Now()
	again = s.save(again)
	fresh := s.save(sent("fresh", ""))
	got := s.list(store.Filter{Older: short - slack})
	took := time.Since(young) // on a slow machine the others are as old meanwhile
	s.require(len(got) > 0 && equal(got[0], old) && (len(got) == 1 || took >= short-2*slack),
		"List with age %v: got %s, want %s, and nothing that was saved %v ago", short-slack, described(got...), described(old), took)
	s.lists("all are as old as this", store.Filter{}, old, again, fresh)
	s.lists("none is as old as this", store.Filter{Older: long + time.Since(start)})
	s.lists("none is as old as this", store.Filter{Older: 100 * 365 * 24 * time.Hour})
}

func (s idempotencyStore) listOldest() {
	kept := map[string]store.Entry{}
	save := func(keys string, state store.State) {
		for key := range strings.SplitSeq(keys, "") {
			entry := kept[key]
			entry.Key, entry.State = key, state
			kept[key] = s.save(entry)
			wait(2 * slack)
		}
	}
	lists := func(want string) {
		s.Helper()
		got, last := "", time.Duration(math.MaxInt64)
		for _, entry := range s.list(store.Filter{}) {
			s.require(entry.Age <= last, "List: got an entry of age %v after one of %v", entry.Age, last)
			got, last = got+entry.Key, entry.Age
		}
		s.require(got == want, "List: got the keys %q, want %q, in the order of saving, whatever key and state", got, want)
	}
	save("ca", store.Sent)
	save("be", store.Forgotten)
	save("df", store.Done)
	lists("cabedf")
	save("a", store.Forgotten)
	lists("cbedfa")
	save("f", store.Sent)
	save("c", store.Done)
	lists("bedafc")
}

// many is more entries than a store handles in a batch. The tests of the suite use fewer.
var many = 5_000

// saveMany saves n entries in parallel, with these prefixes and states in turn.
func (s idempotencyStore) saveMany(n int, prefixes []string, states []store.State) []store.Entry {
	s.Helper()
	all := make([]store.Entry, n)
	const several = 64
	s.atOnce(several, func(worker int) error {
		for i := worker; i < n; i += several {
			entry := sent(fmt.Sprintf("%s%d", prefixes[i%len(prefixes)], i), "")
			entry.State = states[i/len(prefixes)%len(states)]
			if err := s.store.Save(s.Context(), entry); err != nil {
				return fmt.Errorf("Save of %s: %w", described(entry), err)
			}
			entry.Revision++
			all[i] = entry
		}
		return nil
	})
	return all
}

// pages lists page after page and calls between after each page. All pages have at most entries.
func (s idempotencyStore) pages(filter store.Filter, most int, between func(page []store.Entry)) (all []store.Entry) {
	s.Helper()
	for {
		page := s.list(filter)
		if len(page) == 0 {
			return all
		}
		all = append(all, page...)
		s.require(len(page) <= filter.Limit && len(all) <= most,
			"List with limit %d: got a page of %d entries, and %d so far, want at most %d", filter.Limit, len(page), len(all), most)
		filter.After = page[len(page)-1].Position
		between(page)
	}
}

// listPages pages through many entries with equal times.
func (s idempotencyStore) listPages() {
	all := s.saveMany(many, []string{"a:", "b:", "a:", "a/", "a:"}, []store.State{store.Done, store.Sent, store.Free})
	all = append(all, s.saveMany(60, []string{"few:"}, allStates)...)
	for _, filter := range []store.Filter{
		{States: allStates, Limit: 3000},
		{Prefix: "a:", States: []store.State{store.Free, store.Done}, Limit: 999},
		{Prefix: "few:", States: []store.State{store.Free, store.Done}, Limit: 7},
		{Prefix: "few:", States: allStates, Limit: 1},
	} {
		want := slices.DeleteFunc(slices.Clone(all), func(e store.Entry) bool {
			return !strings.HasPrefix(e.Key, filter.Prefix) || !slices.Contains(filter.States, e.State)
		})
		s.same("on all pages", filter, s.pages(filter, len(want), func([]store.Entry) {}), want)
	}
	_, err := s.store.List(s.Context(), store.Filter{States: allStates, After: "no position", Limit: 1})
	s.require(errors.Is(err, store.ErrPosition), "List after a position that no entry has: got error %v, want ErrPosition", err)
	last := store.Filter{States: allStates, After: store.PositionAt(math.MaxUint64, ""), Limit: 1}
	page, err := s.store.List(s.Context(), last)
	s.require(len(page) == 0 && (err == nil || errors.Is(err, store.ErrPosition)),
		"List after the last position: got %s and error %v, want an empty page, or ErrPosition", described(page...), err)
}

// listChanging saves the first and the last entries again, and new entries, between the pages.
func (s idempotencyStore) listChanging() {
	const n, limit = 120, 10
	kept := s.saveMany(n, []string{"a:"}, allStates)
	changed := map[string]bool{}
	page := -1
	seen := map[string][]store.Entry{}
	for _, entry := range s.pages(store.Filter{Prefix: "a:", Limit: limit}, 3*n, func([]store.Entry) {
		if page++; page >= n/limit {
			return
		}
		s.save(sent(fmt.Sprint("a:new ", page), ""))
		for _, i := range []int{page * limit, n - 1 - page} {
			kept[i].State = allStates[(page+i)%len(allStates)]
			kept[i], changed[kept[i].Key] = s.save(kept[i]), true
		}
	}) {
		seen[entry.Key] = append(seen[entry.Key], entry)
	}
	for _, entry := range kept {
		got := seen[entry.Key]
		s.require(len(got) == 1 && equal(got[0], entry) || len(got) > 1 && changed[entry.Key] && equal(got[len(got)-1], entry),
			"pages, while entries are saved: got %s for %s, want it once, or also as it was before if it has changed",
			described(got...), described(entry))
	}
}

func (s idempotencyStore) listBytes() {
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
		got := s.pages(store.Filter{Prefix: prefix, Limit: n}, n, func(page []store.Entry) {
			size := 0
			for _, entry := range page {
				size += len(entry.Data)
			}
			s.require(size <= store.PageBytes || len(page) == 1,
				"List: got %d bytes of data in a page of %d entries, want at most %d", size, len(page), store.PageBytes)
		})
		s.require(len(got) == n, "pages of large entries: got %s, want %d entries", described(got...), n)
	}
}
