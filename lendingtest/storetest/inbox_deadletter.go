package storetest

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/webhook"
)

// letters returns the dead letters of the inbox, or skips the rule if the inbox has none.
func (b inbox) letters() webhook.DeadLetters {
	b.Helper()
	letters, ok := b.store.(webhook.DeadLetters)
	if !ok {
		b.Skipf("not tested: %T is no webhook.DeadLetters", b.store)
	}
	return letters
}

// setAside puts events, takes each and makes each a dead letter, with some time in between.
func (b inbox) setAside(events ...*webhook.Event) {
	b.Helper()
	for _, event := range events {
		wait(slack)
		b.put(event)
		b.deadLetter(b.taken())
	}
}

func (b inbox) list(filter webhook.DeadLetterFilter) []webhook.DeadLetter {
	b.Helper()
	page, err := b.letters().DeadLetters(b.Context(), filter)
	b.succeeds("DeadLetters", err)
	return page
}

func (b inbox) only() webhook.DeadLetter {
	b.Helper()
	page := b.list(webhook.DeadLetterFilter{})
	b.require(len(page) == 1, "DeadLetters: got %d, want the one that was set aside", len(page))
	return page[0]
}

func (b inbox) redrive(want int, ids ...string) {
	b.Helper()
	n, err := b.letters().Redrive(b.Context(), ids...)
	b.require(err == nil && n == want, "Redrive of %d IDs: got %d and error %v, want %d", len(ids), n, err, want)
}

func (b inbox) drop(want int, ids ...string) {
	b.Helper()
	n, err := b.letters().Drop(b.Context(), decision, ids...)
	b.require(err == nil && n == want, "Drop of %d IDs: got %d and error %v, want %d", len(ids), n, err, want)
}

// named returns an event with a time. No two events are equal.
func named(name lending.EventName, n int) *webhook.Event {
	text, _ := json.Marshal(name) //nolint:errchkjson // a string has JSON
	return parsed(`{"webhookEvent":%s,"data":{"code":"731904","n":%d},"creationTimeUtc":"2024-01-02T03:04:05.1234567Z"}`, text, n)
}

// hostile is an event name or error text with bytes of awkward kinds.
const hostile = "a\x00b\x1b[31m\r\n'\"\xff<script>"

func (b inbox) describes() {
	letters := b.letters()
	e, start := named("WB_Loan_Opened", 1), time.Now()
	b.put(e)
	b.retry(b.taken(), 0)
	cause := errors.New(hostile + "code 731904 " + strings.Repeat("x", 1<<16))
	entry := b.taken()
	b.succeeds("DeadLetter", b.store.DeadLetter(b.Context(), entry, cause))
	letter := b.only()
	want := webhook.NewDeadLetter(entry, cause)
	want.ID, want.SetAside = letter.ID, letter.SetAside
	b.require(letter.Created.Equal(want.Created), "DeadLetters: got Created %v, want %v, as the event has it", letter.Created, want.Created)
	letter.Created = want.Created
	b.require(reflect.DeepEqual(letter, want) && letter.Tries == 2 && !strings.Contains(letter.Cause, "731904"),
		"DeadLetters: got\n%+v, want\n%+v, with Tries 2", letter, want)
	b.require(letter.ID != "" && strings.Trim(letter.ID, "0123456789-") == "", "DeadLetters: got ID %q, want digits and hyphens", letter.ID)
	b.require(!letter.SetAside.Before(start.Add(-time.Minute)) && !letter.SetAside.After(time.Now().Add(time.Minute)),
		"DeadLetters: got SetAside %v, want about %v", letter.SetAside, time.Now())
	got, err := letters.DeadLetterEvent(b.Context(), letter.ID)
	b.require(err == nil && bytes.Equal(got.Body(), e.Body()) && got.Name == e.Name,
		"DeadLetterEvent: got error %v, want the event with its bytes", err)
	b.setAside(named(hostile, 2))
	page := b.list(webhook.DeadLetterFilter{Event: named(hostile, 2).Name})
	b.require(len(page) == 1 && page[0].Event == named(hostile, 2).Name,
		"DeadLetters: got %+v, want the one whose name has control characters", page)
	b.noLetter("", "0", "9-9", "-", hostile, strings.Repeat("9", 40))
}

// noLetter fails unless operations on unknown ids return no error and change nothing.
func (b inbox) noLetter(ids ...string) {
	b.Helper()
	for _, id := range ids {
		_, err := b.letters().DeadLetterEvent(b.Context(), id)
		b.require(errors.Is(err, webhook.ErrNoDeadLetter), "DeadLetterEvent: got error %v for an ID of no dead letter, want ErrNoDeadLetter", err)
	}
	b.redrive(0, ids...)
	b.drop(0, ids...)
}

func (b inbox) redrives() {
	letters := b.letters()
	b.put(event(1))
	b.retry(b.take(1, 1), 0)
	b.deadLetter(b.take(1, 2))
	first := b.only()
	b.redrive(1, first.ID)
	b.noLetter(first.ID)
	b.counts(webhook.InboxCounts{Waiting: 1}, "after Redrive")
	b.deadLetter(b.take(1, 1))
	second := b.only()
	b.require(second.ID != first.ID, "DeadLetters: got the ID %q for an event again that was redriven and failed again, want another", first.ID)
	b.noLetter(first.ID)
	ids := slices.Repeat([]string{second.ID}, webhook.MaxDeadLetters+1)
	n, err := letters.Redrive(b.Context(), ids...)
	b.require(err != nil && n == 0, "Redrive of %d at once: got %d and error %v, want an error", len(ids), n, err)
	b.redrive(1, ids[1:]...)
	b.is(b.take(1, 1))
	b.counts(webhook.InboxCounts{}, "after Redrive and Done")
}

func (b inbox) drops() {
	letters := b.letters()
	b.setAside(event(1), event(2))
	page := b.list(webhook.DeadLetterFilter{})
	n, err := letters.Drop(b.Context(), webhook.Decision{By: "kim"}, page[0].ID)
	b.require(err != nil && n == 0, "Drop by nobody: got %d and error %v, want an error", n, err)
	b.drop(1, page[0].ID)
	b.noLetter(page[0].ID)
	b.counts(webhook.InboxCounts{DeadLetters: 1}, "after Drop of one of two")
	left := b.only()
	b.require(left.ID == page[1].ID, "DeadLetters: got %+v, want the one that was not dropped", left)
	b.none("one was dropped, and one is a dead letter")
	b.seen(event(2), "that was dropped")
	b.store = b.open()
	kept, err := b.letters().Removed(b.Context(), 0)
	want := webhook.NewRemoved(decision, page[0].ID, page[0].Key, page[0].Event)
	b.require(err == nil && len(kept) == 1 && time.Since(kept[0].At).Abs() <= patience,
		"Removed in the next process: got %+v and error %v, want %+v", kept, err, want)
	want.At = kept[0].At
	b.require(kept[0] == want, "Removed: got %+v, want %+v", kept[0], want)
}

var decision = webhook.Decision{By: "tester", Why: "a test"}

// erases has two events in each state: one mentions the person, and the other somebody else.
func (b inbox) erases() {
	letters := b.letters()
	const person = "8c1b5a6e-2f7d-4b5b-9a51-0c7a3f5d2e10"
	var events []*webhook.Event
	pair := func(mention string) {
		b.Helper()
		for _, id := range []string{mention, "0d4f9a86-51a3-4d0f-8f0e-6d0a9a1f7c33"} {
			e := parsed(`{"webhookEvent":"E","n":%d,"data":{"of":[{"id":"%s"}]}}`, len(events), id)
			b.put(e)
			events = append(events, e)
		}
	}
	pair(person)
	b.deadLetter(b.taken())
	b.deadLetter(b.taken())
	pair(strings.ReplaceAll(person, "-", `\u002d`))
	b.retry(b.taken(), long)
	b.retry(b.taken(), long)
	pair(strings.ToUpper(person))
	running, other := b.taken(), b.taken()
	if !running.Event.Mentions(person) {
		running, other = other, running
	}
	pair("x" + person + "/y")
	n, err := letters.Erase(b.Context(), decision, person[:7])
	b.require(err != nil && n == 0, "Erase of a short id: got %d and error %v, want an error", n, err)
	n, err = letters.Erase(b.Context(), decision, person, "no-such-id")
	b.require(err == nil && n == 4, "Erase: got %d and error %v, want the 4 events that mention the person", n, err)
	b.counts(webhook.InboxCounts{Waiting: 2, Running: 1, DeadLetters: 1}, "after Erase of 4 events of 8")
	b.retry(running, 0)
	b.deadLetter(running)
	b.is(running)
	b.is(other)
	b.counts(webhook.InboxCounts{Waiting: 2, DeadLetters: 1}, "after Retry, DeadLetter and Done of an erased event")
	for _, e := range events {
		b.seen(e, "after Erase")
	}
	kept, err := letters.Removed(b.Context(), 3)
	b.require(err == nil && len(kept) == 3 && kept[0].Decision == decision && kept[0].Event == "E",
		"Removed after Erase: got %+v and error %v, want the newest 3 of 4", kept, err)
}

func (b inbox) pages() {
	letters := b.letters()
	names := []lending.EventName{"a", "b", "a", "b", "a"}
	for n, name := range names {
		b.setAside(named(name, n))
	}
	all := b.list(webhook.DeadLetterFilter{})
	b.require(len(all) == 5, "DeadLetters: got %d, want all 5", len(all))
	type filter = webhook.DeadLetterFilter
	for _, test := range []struct {
		filter filter
		want   []int
	}{
		{filter{}, []int{4, 3, 2, 1, 0}}, // the newest first
		{filter{Event: "a"}, []int{4, 2, 0}},
		{filter{Event: "c"}, nil},
		{filter{Limit: 2}, []int{4, 3}},
		{filter{Limit: 2, After: all[1].ID}, []int{2, 1}},
		{filter{After: all[4].ID}, nil},
		{filter{Limit: 2, Event: "a", After: all[0].ID}, []int{2, 0}},
		{filter{Limit: 1 << 30}, []int{4, 3, 2, 1, 0}},
	} {
		page := b.list(test.filter)
		same := slices.EqualFunc(page, test.want, func(letter webhook.DeadLetter, n int) bool {
			return letter.Key == named(names[n], n).Key()
		})
		b.require(same, "DeadLetters with %+v: got %+v, want those with the numbers %v", test.filter, page, test.want)
	}
	n, err := webhook.RedriveAll(b.Context(), letters, webhook.DeadLetterFilter{Event: "b"})
	b.require(err == nil && n == 2, "RedriveAll of a name: got %d and error %v, want 2", n, err)
	n, err = webhook.DropAll(b.Context(), letters, decision, webhook.DeadLetterFilter{})
	b.require(err == nil && n == 3, "DropAll: got %d and error %v, want 3", n, err)
	b.counts(webhook.InboxCounts{Waiting: 2}, "after RedriveAll of two, and DropAll of the rest")
}

func (b inbox) oneRedrives() {
	letters := b.letters()
	const events = 8
	for n := range events {
		b.setAside(event(n))
	}
	var redriven, dropped atomic.Int64
	page := b.list(webhook.DeadLetterFilter{})
	b.atOnce(2*events, func(i int) error {
		letter := page[i/2].ID
		r, failed := letters.Redrive(b.Context(), letter)
		redriven.Add(int64(r))
		d, err := letters.Drop(b.Context(), decision, letter)
		dropped.Add(int64(d))
		return errors.Join(failed, err)
	})
	r, d := redriven.Load(), dropped.Load()
	b.require(r+d == events, "Redrive and Drop by many at once: got %d and %d, want %d together", r, d, events)
	b.counts(webhook.InboxCounts{Waiting: int(r)}, "after Redrive and Drop by many at once")
}
