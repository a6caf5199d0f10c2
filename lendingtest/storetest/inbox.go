package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/lendingapi/lending-go/webhook"
)

// Inbox tests the contract of a [webhook.Inbox]. The place function makes an empty place, for
// example a table, and returns a function that opens the inbox there. The suite calls open
// several times, like a series of processes.
//
//   - If the inbox allows a single process, open first closes the previous inbox.
//   - If the inbox keeps its events in memory, open returns the same inbox again, and the suite does
//     not test survival.
//   - If claims expire, they must last for lease, or a little longer. Until must be earlier than
//     the expiry by at least a twentieth of lease, so that a handler ends before another process
//     claims the event.
//   - If the inbox is also a [webhook.DeadLetters], Inbox tests that contract too.
func Inbox(t *testing.T, place func(t *testing.T, lease time.Duration) (open func() webhook.Inbox)) {
	t.Helper()
	for _, rule := range inboxRules() {
		t.Run(rule.name, func(t *testing.T) {
			rule.check(t, func(lease time.Duration) func() webhook.Inbox { return place(t, lease) })
		})
	}
}

type inboxPlace func(lease time.Duration) (open func() webhook.Inbox)

var errFailed = errors.New("a failure")

func inboxRules() []rule[inboxPlace] {
	var rules []rule[inboxPlace]
	for _, r := range []struct {
		name  string
		lease time.Duration
		check func(b inbox)
	}{
		{"Take returns the event unchanged", long, inbox.asItWas},
		{"a second Put of an event is a duplicate", long, inbox.duplicates},
		{"Take waits until an event is due", long, inbox.waits},
		{"Take returns when its context has ended", long, inbox.contexts},
		{"a cancelled Take leaves the event due", long, inbox.abandoned},
		{"Retry delays an event", long, inbox.retries},
		{"Ages reports how late the inbox is", long, inbox.ages},
		{"Done removes an event", long, inbox.done},
		{"DeadLetter sets an event aside", long, inbox.deadLetters},
		{"parallel Takes share no event", long, inbox.oneOfMany},
		{"events survive their process", short, inbox.survives},
		{"a claim expires, and only its next owner ends it by Retry or DeadLetter", short, inbox.late},
		{"Done removes an event after the claim has expired", short, inbox.lateDone},
		{"a dead letter has the event and the cause", long, inbox.describes},
		{"a dead letter can be redriven", long, inbox.redrives},
		{"a dead letter can be dropped", long, inbox.drops},
		{"Erase removes the events of a person", long, inbox.erases},
		{"a filter selects dead letters, page by page", long, inbox.pages},
		{"one of many parallel Redrives and Drops succeeds", long, inbox.oneRedrives},
	} {
		rules = append(rules, rule[inboxPlace]{r.name, func(tb testing.TB, place inboxPlace) {
			tb.Helper()
			open := place(r.lease)
			r.check(inbox{tb, open, open()})
		}})
	}
	return rules
}

// inbox is an inbox under test.
type inbox struct {
	testing.TB
	open  func() webhook.Inbox
	inbox webhook.Inbox
}

// event returns the nth event. No two events are equal, and their bytes change if a store parses
// and encodes the JSON.
func event(n int) *webhook.Event {
	e, err := webhook.Parse(fmt.Appendf(nil, "\ufeff{\"webhookEvent\":\"WB_Loan_Opened\",\"data\":{\"n\":%d, \"text\":\"ü \\u00fc '\"}} ", n))
	if err != nil {
		panic(err)
	}
	return e
}

func (b inbox) put(n int) {
	b.Helper()
	if err := b.inbox.Put(b.Context(), event(n)); err != nil {
		b.Fatalf("Put of event %d, which is new: %v", n, err)
	}
}

func (b inbox) seen(n int, when string) {
	b.Helper()
	if err := b.inbox.Put(b.Context(), event(n)); !errors.Is(err, webhook.ErrDuplicate) {
		b.Fatalf("Put of event %d %s: got error %v, want ErrDuplicate", n, when, err)
	}
}

// take takes event n. No other event may be due.
func (b inbox) take(n, tries int) *webhook.InboxEntry {
	b.Helper()
	entry := b.taken()
	if entry.Event.Key() != event(n).Key() {
		b.Fatalf("Take: got another event than %d, which is due: %s", n, entry.Event.Body())
	}
	if entry.Tries != tries {
		b.Fatalf("Take of event %d: got Tries %d, want %d, the number of claims with this one", n, entry.Tries, tries)
	}
	return entry
}

func (b inbox) taken() *webhook.InboxEntry {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	entry, err := b.inbox.Take(ctx)
	if err != nil || entry == nil || entry.Event == nil {
		b.Fatalf("Take: got no event and error %v, want the one that is due", err)
	}
	return entry
}

// none fails unless no event is due.
func (b inbox) none(why string) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), short/3)
	defer cancel()
	if entry, err := b.inbox.Take(ctx); !errors.Is(err, context.DeadlineExceeded) {
		b.Fatalf("Take: got an entry: %t, and error %v, want to wait until %q: nothing is due, since %s", entry != nil, err, context.DeadlineExceeded, why)
	}
}

func (b inbox) told(what string, err error) {
	b.Helper()
	if err != nil {
		b.Fatalf("%s: got error %v, want none", what, err)
	}
}

func (b inbox) is(done *webhook.InboxEntry) {
	b.Helper()
	b.told("Done", b.inbox.Done(b.Context(), done))
}

func (b inbox) retry(entry *webhook.InboxEntry, wait time.Duration) {
	b.Helper()
	b.told("Retry", b.inbox.Retry(b.Context(), entry, wait))
}

func (b inbox) deadLetter(entry *webhook.InboxEntry) {
	b.Helper()
	b.told("DeadLetter", b.inbox.DeadLetter(b.Context(), entry, errFailed))
}

func (b inbox) counts(want webhook.InboxCounts, when string) {
	b.Helper()
	if got, err := b.inbox.Counts(b.Context()); err != nil || got != want {
		b.Fatalf("Counts %s: got %+v and error %v, want %+v", when, got, err, want)
	}
}

func (b inbox) asItWas() {
	b.none("it is empty")
	b.counts(webhook.InboxCounts{}, "of an empty inbox")
	b.put(1)
	entry := b.take(1, 1)
	if want := event(1); !bytes.Equal(entry.Event.Body(), want.Body()) || entry.Event.Name != want.Name {
		b.Fatalf("Take: got event %q with the bytes %q, want %q with %q", entry.Event.Name, entry.Event.Body(), want.Name, want.Body())
	}
	if !entry.Until.IsZero() && !entry.Until.After(time.Now()) {
		b.Fatalf("Take: the claim has ended at %v already, in Until", entry.Until)
	}
}

func (b inbox) duplicates() {
	b.put(1)
	b.seen(1, "that waits")
	b.counts(webhook.InboxCounts{Waiting: 1}, "after two Puts of one event")
	entry := b.take(1, 1)
	b.seen(1, "that is being acted on")
	b.retry(entry, 0)
	b.seen(1, "that will be tried again")
	b.is(b.take(1, 2))
	b.seen(1, "that is done")
	b.counts(webhook.InboxCounts{}, "when one event was put several times, and is done")
	b.put(2)
	b.deadLetter(b.take(2, 1))
	b.seen(2, "that was set aside")
	b.none("all are duplicates")
}

func (b inbox) waits() {
	b.comes("Put", 1, 1, func() { b.told("Put", b.inbox.Put(b.Context(), event(1))) })
	b.put(2)
	entry := b.take(2, 1)
	b.comes("Retry", 2, 2, func() { b.told("Retry", b.inbox.Retry(b.Context(), entry, 0)) })
}

// comes takes event n, which becomes due while Take waits.
func (b inbox) comes(by string, n, tries int, makeDue func()) {
	b.Helper()
	due := make(chan struct{})
	go func() {
		defer close(due)
		wait(short / 3)
		makeDue()
	}()
	start := time.Now()
	entry := b.take(n, tries)
	<-due
	if took := time.Since(start); took < short/3 || took > patience/2 {
		b.Fatalf("Take returned after %v, when %s had made an event due after %v", took, by, short/3)
	}
	b.is(entry)
}

func (b inbox) contexts() {
	ctx, cancel := context.WithCancel(b.Context())
	go func() {
		wait(short / 3)
		cancel()
	}()
	if !returns(func() {
		if entry, err := b.inbox.Take(ctx); err == nil || ctx.Err() == nil {
			b.Errorf("Take from an empty inbox: got an entry: %t, and error %v, want to wait, and an error when the context ends", entry != nil, err)
		}
	}) {
		b.Fatalf("Take has not returned %v after the end of its context", patience)
	}
	b.put(1)
	b.is(b.take(1, 1))
}

// abandoned ends the context of a Take at various moments of the call.
func (b inbox) abandoned() {
	for n := range 20 {
		b.put(n)
		ctx, cancel := context.WithTimeout(b.Context(), time.Duration(n)*short/1000)
		entry, err := b.inbox.Take(ctx)
		cancel()
		if err != nil {
			entry = b.take(n, 1)
		}
		b.is(entry)
	}
}

func (b inbox) retries() {
	b.put(1)
	entry, start := b.take(1, 1), time.Now()
	b.retry(entry, 2*short)
	b.counts(webhook.InboxCounts{Waiting: 1}, "when an event will be tried again")
	b.put(2)
	b.is(b.take(2, 1)) // an event that waits does not block the others
	entry = b.take(1, 2)
	if took := time.Since(start); took < 2*short-slack {
		b.Fatalf("Take: got an event %v after Retry, which let it wait for %v", took, 2*short)
	}
	b.retry(entry, 0)
	b.is(b.take(1, 3))
}

func (b inbox) ages() {
	b.told("Ready", b.inbox.Ready(b.Context()))
	never := time.Now()
	b.aged("of an empty inbox", 0, never)
	start := time.Now()
	b.put(1)
	wait(short)
	if ages := b.aged("of an event that is due", short-slack, start); ages.DeadLetter > 0 {
		b.Fatalf("Ages without a dead letter: got %+v", ages)
	}
	entry := b.take(1, 1)
	b.aged("of an event that is being handled", 0, never)
	b.retry(entry, long)
	b.aged("of an event that will be tried again", 0, never)
	start = time.Now()
	b.put(2)
	b.deadLetter(b.take(2, 1))
	wait(short)
	if ages := b.aged("of a dead letter", 0, never); ages.DeadLetter < short-slack || ages.DeadLetter > time.Since(start)+slack {
		b.Fatalf("Ages of a dead letter: got %+v, want from %v to %v", ages, short, time.Since(start))
	}
}

// aged fails unless Due is at least and at most the time since start, or 0.
func (b inbox) aged(when string, least time.Duration, start time.Time) webhook.InboxAges {
	b.Helper()
	ages, err := b.inbox.Ages(b.Context())
	if most := time.Since(start) + slack; err != nil || ages.Due < least || least == 0 && ages.Due > 0 || ages.Due > most {
		b.Fatalf("Ages %s: got %+v and error %v, want Due from %v, or 0, to %v", when, ages, err, least, most)
	}
	return ages
}

func (b inbox) done() {
	b.put(1)
	b.put(2)
	b.counts(webhook.InboxCounts{Waiting: 2}, "of two events")
	first, second := b.taken(), b.taken()
	b.counts(webhook.InboxCounts{Running: 2}, "when both were taken")
	b.none("both were taken")
	b.is(first)
	b.counts(webhook.InboxCounts{Running: 1}, "when one is done")
	b.is(first)
	b.retry(first, 0)
	b.deadLetter(first)
	b.counts(webhook.InboxCounts{Running: 1}, "after Done, Retry and DeadLetter of what is done")
	b.is(second)
	b.counts(webhook.InboxCounts{}, "when both are done")
	b.none("both are done")
}

func (b inbox) deadLetters() {
	b.put(1)
	entry := b.take(1, 1)
	b.deadLetter(entry)
	b.counts(webhook.InboxCounts{DeadLetters: 1}, "when an event was set aside")
	b.deadLetter(entry)
	b.retry(entry, 0)
	b.none("it was set aside")
	b.counts(webhook.InboxCounts{DeadLetters: 1}, "after DeadLetter and Retry of what was set aside")
}

func (b inbox) oneOfMany() {
	const events, several = 24, 8
	var mu sync.Mutex
	accepted, taken := map[string]int{}, map[string]int{}
	count := func(in map[string]int, key string) {
		mu.Lock()
		defer mu.Unlock()
		in[key]++
	}
	atOnce(several, func(int) {
		for n := range events {
			switch err := b.inbox.Put(b.Context(), event(n)); {
			case err == nil:
				count(accepted, event(n).Key())
			case !errors.Is(err, webhook.ErrDuplicate):
				b.Errorf("Put by one of many: got error %v, want ErrDuplicate or success", err)
			}
		}
	})
	atOnce(several, func(int) {
		for range events / several {
			ctx, cancel := context.WithTimeout(b.Context(), patience)
			entry, err := b.inbox.Take(ctx)
			cancel()
			if err != nil {
				b.Errorf("Take by one of many, when an event is due: %v", err)
				return
			}
			count(taken, entry.Event.Key())
		}
	})
	for n := range events {
		if key := event(n).Key(); accepted[key] != 1 || taken[key] != 1 {
			b.Errorf("an event that many put was accepted %d times, and taken %d times by many; want 1 and 1", accepted[key], taken[key])
		}
	}
}
