package storetest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/webhook"
)

// letters returns the dead letters of the inbox.
func (b inbox) letters() (letters webhook.DeadLetters, ok bool) {
	b.Helper()
	letters, ok = b.inbox.(webhook.DeadLetters)
	if !ok {
		b.Logf("not tested: %T is no webhook.DeadLetters", b.inbox)
	}
	return letters, ok
}

// setAside puts events, takes each and makes each a dead letter, with some time in between.
func (b inbox) setAside(events ...*webhook.Event) {
	b.Helper()
	for _, event := range events {
		wait(slack)
		b.told("Put", b.inbox.Put(b.Context(), event))
		b.deadLetter(b.taken())
	}
}

func (b inbox) list(letters webhook.DeadLetters, filter webhook.DeadLetterFilter) []webhook.DeadLetter {
	b.Helper()
	page, err := letters.DeadLetters(b.Context(), filter)
	b.told("DeadLetters", err)
	return page
}

// only returns the only dead letter.
func (b inbox) only(letters webhook.DeadLetters) webhook.DeadLetter {
	b.Helper()
	page := b.list(letters, webhook.DeadLetterFilter{})
	if len(page) != 1 {
		b.Fatalf("DeadLetters: got %d, want the one that was set aside", len(page))
	}
	return page[0]
}

// named returns an event with a time. No two events are equal.
func named(name lending.EventName, n int) *webhook.Event {
	text, err := json.Marshal(name)
	if err != nil {
		panic(err)
	}
	e, err := webhook.Parse(fmt.Appendf(nil,
		`{"webhookEvent":%s,"data":{"code":"731904","n":%d},"creationTimeUtc":"2024-01-02T03:04:05.1234567Z"}`, text, n))
	if err != nil {
		panic(err)
	}
	return e
}

// hostile is an event name or error text with bytes of awkward kinds.
const hostile = "a\x00b\x1b[31m\r\n'\"\xff<script>"

func (b inbox) describes() {
	letters, ok := b.letters()
	if !ok {
		return
	}
	e, start := named("WB_Loan_Opened", 1), time.Now()
	b.told("Put", b.inbox.Put(b.Context(), e))
	b.retry(b.taken(), 0)
	cause := errors.New(hostile + "code 731904 " + strings.Repeat("x", 1<<16))
	entry := b.taken()
	b.told("DeadLetter", b.inbox.DeadLetter(b.Context(), entry, cause))
	letter := b.only(letters)
	want := webhook.NewDeadLetter(entry, cause)
	want.ID, want.SetAside = letter.ID, letter.SetAside
	if !letter.Created.Equal(want.Created) {
		b.Fatalf("DeadLetters: got Created %v, want %v, as the event has it", letter.Created, want.Created)
	}
	letter.Created = want.Created
	if !reflect.DeepEqual(letter, want) || letter.Tries != 2 || strings.Contains(letter.Cause, "731904") {
		b.Fatalf("DeadLetters: got\n%+v, want\n%+v, with Tries 2", letter, want)
	}
	if letter.ID == "" || strings.Trim(letter.ID, "0123456789-") != "" {
		b.Fatalf("DeadLetters: got ID %q, want digits and hyphens", letter.ID)
	}
	if letter.SetAside.Before(start.Add(-time.Minute)) || letter.SetAside.After(time.Now().Add(time.Minute)) {
		b.Fatalf("DeadLetters: got SetAside %v, want about %v", letter.SetAside, time.Now())
	}
	got, err := letters.DeadLetterEvent(b.Context(), letter.ID)
	if err != nil || !bytes.Equal(got.Body(), e.Body()) || got.Name != e.Name {
		b.Fatalf("DeadLetterEvent: got error %v, want the event with its bytes", err)
	}
	b.setAside(named(hostile, 2))
	page := b.list(letters, webhook.DeadLetterFilter{Event: named(hostile, 2).Name})
	if len(page) != 1 || page[0].Event != named(hostile, 2).Name {
		b.Fatalf("DeadLetters: got %+v, want the one whose name has control characters", page)
	}
	b.noLetter(letters, "", "0", "9-9", "-", hostile, strings.Repeat("9", 40))
}

// noLetter fails unless operations on unknown ids return no error and change nothing.
func (b inbox) noLetter(letters webhook.DeadLetters, ids ...string) {
	b.Helper()
	for _, id := range ids {
		if _, err := letters.DeadLetterEvent(b.Context(), id); !errors.Is(err, webhook.ErrNoDeadLetter) {
			b.Fatalf("DeadLetterEvent: got error %v for an ID of no dead letter, want ErrNoDeadLetter", err)
		}
	}
	redriven, failed := letters.Redrive(b.Context(), ids...)
	dropped, err := letters.Drop(b.Context(), decision, ids...)
	if failed != nil || err != nil || redriven+dropped > 0 {
		b.Fatalf("Redrive and Drop of no dead letter: got %d and %d, and errors %v and %v; want none", redriven, dropped, failed, err)
	}
}

func (b inbox) redrives() {
	letters, ok := b.letters()
	if !ok {
		return
	}
	b.put(1)
	b.retry(b.take(1, 1), 0)
	b.deadLetter(b.take(1, 2))
	first := b.only(letters)
	if n, err := letters.Redrive(b.Context(), first.ID); err != nil || n != 1 {
		b.Fatalf("Redrive: got %d and error %v, want 1", n, err)
	}
	b.noLetter(letters, first.ID)
	b.counts(webhook.InboxCounts{Waiting: 1}, "after Redrive")
	b.deadLetter(b.take(1, 1))
	second := b.only(letters)
	if second.ID == first.ID {
		b.Fatalf("DeadLetters: got the ID %q for an event again that was redriven and failed again, want another", first.ID)
	}
	b.noLetter(letters, first.ID)
	ids := make([]string, webhook.MaxDeadLetters+1)
	for i := range ids {
		ids[i] = second.ID
	}
	if n, err := letters.Redrive(b.Context(), ids...); err == nil || n > 0 {
		b.Fatalf("Redrive of %d at once: got %d and error %v, want an error", len(ids), n, err)
	}
	if n, err := letters.Redrive(b.Context(), ids[1:]...); err != nil || n != 1 {
		b.Fatalf("Redrive of one with its ID %d times: got %d and error %v, want 1", len(ids)-1, n, err)
	}
	b.is(b.take(1, 1))
	b.counts(webhook.InboxCounts{}, "after Redrive and Done")
}

func (b inbox) drops() {
	letters, ok := b.letters()
	if !ok {
		return
	}
	b.setAside(event(1), event(2))
	page := b.list(letters, webhook.DeadLetterFilter{})
	if n, err := letters.Drop(b.Context(), webhook.Decision{By: "kim"}, page[0].ID); err == nil || n > 0 {
		b.Fatalf("Drop by nobody: got %d and error %v, want an error", n, err)
	}
	if n, err := letters.Drop(b.Context(), decision, page[0].ID); err != nil || n != 1 {
		b.Fatalf("Drop: got %d and error %v, want 1", n, err)
	}
	b.noLetter(letters, page[0].ID)
	b.counts(webhook.InboxCounts{DeadLetters: 1}, "after Drop of one of two")
	if left := b.only(letters); left.ID != page[1].ID {
		b.Fatalf("DeadLetters: got %+v, want the one that was not dropped", left)
	}
	b.none("one was dropped, and one is a dead letter")
	b.seen(1, "that was dropped")
	b.inbox = b.open()
	letters, _ = b.letters()
	want := webhook.NewRemoved(decision, page[0].ID, page[0].Key, page[0].Event)
	kept, err := letters.Removed(b.Context(), 0)
	if err != nil || len(kept) != 1 || time.Since(kept[0].At).Abs() > patience {
		b.Fatalf("Removed in the next process: got %+v and error %v, want %+v", kept, err, want)
	}
	if want.At = kept[0].At; kept[0] != want {
		b.Fatalf("Removed: got %+v, want %+v", kept[0], want)
	}
}

var decision = webhook.Decision{By: "tester", Why: "a test"}

// erases has two events in each state: one mentions the person, and the other somebody else.
func (b inbox) erases() {
	letters, ok := b.letters()
	if !ok {
		return
	}
	const person = "8c1b5a6e-2f7d-4b5b-9a51-0c7a3f5d2e10"
	var events []*webhook.Event
	pair := func(mention string) {
		b.Helper()
		for _, id := range []string{mention, "0d4f9a86-51a3-4d0f-8f0e-6d0a9a1f7c33"} {
			e, err := webhook.Parse(fmt.Appendf(nil, `{"webhookEvent":"E","n":%d,"data":{"of":[{"id":"%s"}]}}`, len(events), id))
			b.told("Parse", err)
			b.told("Put", b.inbox.Put(b.Context(), e))
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
	if n, err := letters.Erase(b.Context(), decision, person[:7]); err == nil || n > 0 {
		b.Fatalf("Erase of a short id: got %d and error %v, want an error", n, err)
	}
	if n, err := letters.Erase(b.Context(), decision, person, "no-such-id"); err != nil || n != 4 {
		b.Fatalf("Erase: got %d and error %v, want the 4 events that mention the person", n, err)
	}
	b.counts(webhook.InboxCounts{Waiting: 2, Running: 1, DeadLetters: 1}, "after Erase of 4 events of 8")
	b.retry(running, 0)
	b.deadLetter(running)
	b.is(running)
	b.is(other)
	b.counts(webhook.InboxCounts{Waiting: 2, DeadLetters: 1}, "after Retry, DeadLetter and Done of an erased event")
	for _, e := range events {
		if err := b.inbox.Put(b.Context(), e); !errors.Is(err, webhook.ErrDuplicate) {
			b.Fatalf("Put of an erased event: got error %v, want ErrDuplicate", err)
		}
	}
	kept, err := letters.Removed(b.Context(), 3)
	if err != nil || len(kept) != 3 || kept[0].Decision != decision || kept[0].Event != "E" {
		b.Fatalf("Removed after Erase: got %+v and error %v, want the newest 3 of 4", kept, err)
	}
}

func (b inbox) pages() {
	letters, ok := b.letters()
	if !ok {
		return
	}
	b.setAside(named("a", 0), named("b", 1), named("a", 2), named("b", 3), named("a", 4))
	all := b.list(letters, webhook.DeadLetterFilter{})
	if len(all) != 5 {
		b.Fatalf("DeadLetters: got %d, want all 5", len(all))
	}
	for _, test := range []struct {
		name   string
		filter webhook.DeadLetterFilter
		want   []int
	}{
		{"no filter, oldest first", webhook.DeadLetterFilter{}, []int{0, 1, 2, 3, 4}},
		{"a name", webhook.DeadLetterFilter{Event: "a"}, []int{0, 2, 4}},
		{"a name that no event has", webhook.DeadLetterFilter{Event: "c"}, nil},
		{"from a time", webhook.DeadLetterFilter{From: all[2].SetAside}, []int{2, 3, 4}},
		{"before a time", webhook.DeadLetterFilter{Before: all[2].SetAside}, []int{0, 1}},
		{"between two times", webhook.DeadLetterFilter{From: all[1].SetAside, Before: all[3].SetAside}, []int{1, 2}},
		{"a limit", webhook.DeadLetterFilter{Limit: 2}, []int{0, 1}},
		{"after a page", webhook.DeadLetterFilter{Limit: 2, After: all[1].ID}, []int{2, 3}},
		{"after the last", webhook.DeadLetterFilter{After: all[4].ID}, nil},
		{"a limit of a name", webhook.DeadLetterFilter{Limit: 2, Event: "a", After: all[0].ID}, []int{2, 4}},
		{
			"all at once", webhook.DeadLetterFilter{
				Event: "b", From: all[2].SetAside, Before: all[4].SetAside, After: all[1].ID, Limit: 9,
			}, []int{3},
		},
		{"a limit that is too high", webhook.DeadLetterFilter{Limit: 1 << 30}, []int{0, 1, 2, 3, 4}},
	} {
		page := b.list(letters, test.filter)
		same := len(page) == len(test.want)
		for i := range page {
			same = same && page[i].Key == named(all[test.want[i]].Event, test.want[i]).Key()
		}
		if !same {
			b.Fatalf("DeadLetters with %s: got %+v, want those with the numbers %v", test.name, page, test.want)
		}
	}
	if n, err := webhook.RedriveAll(b.Context(), letters, webhook.DeadLetterFilter{Event: "b"}); err != nil || n != 2 {
		b.Fatalf("RedriveAll of a name: got %d and error %v, want 2", n, err)
	}
	if n, err := webhook.DropAll(b.Context(), letters, decision, webhook.DeadLetterFilter{}); err != nil || n != 3 {
		b.Fatalf("DropAll: got %d and error %v, want 3", n, err)
	}
	b.counts(webhook.InboxCounts{Waiting: 2}, "after RedriveAll of two, and DropAll of the rest")
}

func (b inbox) oneRedrives() {
	letters, ok := b.letters()
	if !ok {
		return
	}
	const events = 8
	for n := range events {
		b.setAside(event(n))
	}
	var redriven, dropped atomic.Int64
	page := b.list(letters, webhook.DeadLetterFilter{})
	atOnce(2*events, func(i int) {
		letter := page[i/2].ID
		n, err := letters.Redrive(b.Context(), letter)
		redriven.Add(int64(n))
		d, failed := letters.Drop(b.Context(), decision, letter)
		dropped.Add(int64(d))
		if err != nil || failed != nil {
			b.Errorf("Redrive and Drop by one of many: got errors %v and %v, want none", err, failed)
		}
	})
	if r, d := redriven.Load(), dropped.Load(); r+d != events {
		b.Fatalf("Redrive and Drop by many at once: got %d and %d, want %d together", r, d, events)
	}
	b.counts(webhook.InboxCounts{Waiting: int(redriven.Load())}, "after Redrive and Drop by many at once")
}
