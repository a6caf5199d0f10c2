package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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
	for lease, rules := range map[time.Duration][]rule[inbox]{long: inboxRules, short: leaseRules} {
		run(t, rules, func(t *testing.T) inbox {
			t.Helper()
			return inbox{begin(t, place(t, lease))}
		})
	}
}

var inboxRules = []rule[inbox]{
	{"Take returns the event unchanged", inbox.asItWas},
	{"a second Put of an event is a duplicate", inbox.duplicates},
	{"Take waits until an event is due", inbox.waits},
	{"Take returns when its context has ended", inbox.contexts},
	{"a cancelled Take leaves the event due", inbox.abandoned},
	{"Retry delays an event", inbox.retries},
	{"Ages reports how late the inbox is", inbox.ages},
	{"Done removes an event, and DeadLetter sets it aside", inbox.ends},
	{"parallel Takes share no event", inbox.oneOfMany},
	{"a dead letter has the event and the cause", inbox.describes},
	{"a dead letter can be redriven", inbox.redrives},
	{"a dead letter can be dropped", inbox.drops},
	{"Erase removes the events of a person", inbox.erases},
	{"a filter selects dead letters, page by page", inbox.pages},
	{"one of many parallel Redrives and Drops succeeds", inbox.oneRedrives},
}

// leaseRules wait until claims expire.
var leaseRules = []rule[inbox]{
	{"events survive their process", inbox.survives},
	{"a claim expires, and only its next owner ends it by Retry or DeadLetter", inbox.late},
	{"Done removes an event after the claim has expired", inbox.lateDone},
}

type inbox struct{ trial[webhook.Inbox] }

var errFailed = errors.New("a failure")

// event returns the nth event. No two events are equal, and their bytes change if a store parses
// and encodes the JSON.
func event(n int) *webhook.Event {
	return parsed("\ufeff{\"webhookEvent\":\"WB_Loan_Opened\",\"data\":{\"n\":%d, \"text\":\"ü \\u00fc '\"}} ", n)
}

func parsed(format string, arguments ...any) *webhook.Event {
	e, err := webhook.Parse(fmt.Appendf(nil, format, arguments...))
	if err != nil {
		panic(err)
	}
	return e
}

func (b inbox) put(events ...*webhook.Event) {
	b.Helper()
	for _, event := range events {
		b.succeeds("Put of a new event", b.store.Put(b.Context(), event))
	}
}

func (b inbox) seen(event *webhook.Event, when string) {
	b.Helper()
	err := b.store.Put(b.Context(), event)
	b.require(errors.Is(err, webhook.ErrDuplicate), "Put of event %s %s: got error %v, want ErrDuplicate", event.Body(), when, err)
}

// take takes event n. No other event may be due.
func (b inbox) take(n, tries int) *webhook.InboxEntry {
	b.Helper()
	entry := b.taken()
	b.require(entry.Event.Key() == event(n).Key(), "Take: got another event than %d, which is due: %s", n, entry.Event.Body())
	b.require(entry.Tries == tries, "Take of event %d: got Tries %d, want %d, the number of claims with this one", n, entry.Tries, tries)
	return entry
}

func (b inbox) taken() *webhook.InboxEntry {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	entry, err := b.store.Take(ctx)
	b.require(err == nil && entry != nil && entry.Event != nil, "Take: got no event and error %v, want the one that is due", err)
	return entry
}

// none fails unless no event is due.
func (b inbox) none(why string) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), short/3)
	defer cancel()
	entry, err := b.store.Take(ctx)
	b.require(errors.Is(err, context.DeadlineExceeded), "Take: got an entry: %t, and error %v, want to wait until %q: nothing is due, since %s",
		entry != nil, err, context.DeadlineExceeded, why)
}

func (b inbox) is(done *webhook.InboxEntry) {
	b.Helper()
	b.succeeds("Done", b.store.Done(b.Context(), done))
}

func (b inbox) retry(entry *webhook.InboxEntry, wait time.Duration) {
	b.Helper()
	b.succeeds("Retry", b.store.Retry(b.Context(), entry, wait))
}

func (b inbox) deadLetter(entry *webhook.InboxEntry) {
	b.Helper()
	b.succeeds("DeadLetter", b.store.DeadLetter(b.Context(), entry, errFailed))
}

func (b inbox) counts(want webhook.InboxCounts, when string) {
	b.Helper()
	got, err := b.store.Counts(b.Context())
	b.require(err == nil && got == want, "Counts %s: got %+v and error %v, want %+v", when, got, err, want)
}

func (b inbox) asItWas() {
	b.none("it is empty")
	b.counts(webhook.InboxCounts{}, "of an empty inbox")
	b.put(event(1))
	entry := b.take(1, 1)
	want := event(1)
	b.require(bytes.Equal(entry.Event.Body(), want.Body()) && entry.Event.Name == want.Name,
		"Take: got event %q with the bytes %q, want %q with %q", entry.Event.Name, entry.Event.Body(), want.Name, want.Body())
	b.require(entry.Until.IsZero() || entry.Until.After(time.Now()), "Take: the claim has ended at %v already, in Until", entry.Until)
}

func (b inbox) duplicates() {
	b.put(event(1))
	b.seen(event(1), "that waits")
	b.counts(webhook.InboxCounts{Waiting: 1}, "after two Puts of one event")
	entry := b.take(1, 1)
	b.seen(event(1), "that is being acted on")
	b.retry(entry, 0)
	b.seen(event(1), "that will be tried again")
	b.is(b.take(1, 2))
	b.seen(event(1), "that is done")
	b.counts(webhook.InboxCounts{}, "when one event was put several times, and is done")
	b.put(event(2))
	b.deadLetter(b.take(2, 1))
	b.seen(event(2), "that was set aside")
	b.none("all are duplicates")
}

func (b inbox) waits() {
	b.comes("Put", 1, 1, func() error { return b.store.Put(b.Context(), event(1)) })
	b.put(event(2))
	entry := b.take(2, 1)
	b.comes("Retry", 2, 2, func() error { return b.store.Retry(b.Context(), entry, 0) })
}

// comes takes event n, which becomes due while Take waits.
func (b inbox) comes(by string, n, tries int, makeDue func() error) {
	b.Helper()
	due := make(chan error, 1)
	start := time.Now()
	time.AfterFunc(short/3, func() { due <- makeDue() })
	entry := b.take(n, tries)
	took := time.Since(start)
	b.succeeds(by, <-due)
	b.require(took >= short/3 && took <= patience/2, "Take returned after %v, when %s had made an event due after %v", took, by, short/3)
	b.is(entry)
}

func (b inbox) contexts() {
	ctx, cancel := context.WithTimeout(b.Context(), short/3)
	defer cancel()
	var entry *webhook.InboxEntry
	var err error
	b.returns("Take", func() { entry, err = b.store.Take(ctx) })
	b.require(err != nil && ctx.Err() != nil,
		"Take from an empty inbox: got an entry: %t, and error %v, want to wait, and an error when the context ends", entry != nil, err)
	b.put(event(1))
	b.is(b.take(1, 1))
}

// abandoned ends the context of a Take at various moments of the call.
func (b inbox) abandoned() {
	for n := range 20 {
		b.put(event(n))
		ctx, cancel := context.WithTimeout(b.Context(), time.Duration(n)*short/1000)
		entry, err := b.store.Take(ctx)
		cancel()
		if err != nil {
			entry = b.take(n, 1)
		}
		b.is(entry)
	}
}

func (b inbox) retries() {
	b.put(event(1))
	entry, start := b.take(1, 1), time.Now()
	b.retry(entry, 2*short)
	b.counts(webhook.InboxCounts{Waiting: 1}, "when an event will be tried again")
	b.put(event(2))
	b.is(b.take(2, 1)) // an event that waits does not block the others
	entry = b.take(1, 2)
	took := time.Since(start)
	b.require(took >= 2*short-slack, "Take: got an event %v after Retry, which let it wait for %v", took, 2*short)
	b.retry(entry, 0)
	b.is(b.take(1, 3))
}

func (b inbox) ages() {
	b.succeeds("Ready", b.store.Ready(b.Context()))
	var start time.Time
	aged := func(when string, due, deadLetter bool) {
		b.Helper()
		ages, err := b.store.Ages(b.Context())
		most := time.Since(start) + slack
		fits := func(age time.Duration, old bool) bool {
			return !old && age <= 0 || old && age >= short-slack && age <= most
		}
		b.require(err == nil && fits(ages.Due, due) && fits(ages.DeadLetter, deadLetter),
			"Ages %s: got %+v and error %v, want 0, or from %v to %v", when, ages, err, short, most)
	}
	aged("of an empty inbox", false, false)
	start = time.Now()
	b.put(event(1))
	wait(short)
	aged("of an event that is due", true, false)
	entry := b.take(1, 1)
	aged("of an event that is being handled", false, false)
	b.retry(entry, long)
	aged("of an event that will be tried again", false, false)
	start = time.Now()
	b.put(event(2))
	b.deadLetter(b.take(2, 1))
	wait(short)
	aged("of a dead letter", false, true)
}

func (b inbox) ends() {
	b.put(event(1), event(2))
	b.counts(webhook.InboxCounts{Waiting: 2}, "of two events")
	first, second := b.taken(), b.taken()
	b.counts(webhook.InboxCounts{Running: 2}, "when both were taken")
	b.none("both were taken")
	b.is(first)
	b.counts(webhook.InboxCounts{Running: 1}, "when one is done")
	b.deadLetter(second)
	b.is(first)
	for _, entry := range []*webhook.InboxEntry{first, second} {
		b.retry(entry, 0)
		b.deadLetter(entry)
	}
	b.none("one is done, and one was set aside")
	b.counts(webhook.InboxCounts{DeadLetters: 1}, "after Done, Retry and DeadLetter of what is done or was set aside")
}

func (b inbox) oneOfMany() {
	const events, several = 24, 8
	for n := range events {
		b.oneWins(webhook.ErrDuplicate, func(int) error { return b.store.Put(b.Context(), event(n)) })
	}
	taken := make(chan string, events)
	b.atOnce(several, func(int) error {
		ctx, cancel := context.WithTimeout(b.Context(), patience)
		defer cancel()
		for range events / several {
			entry, err := b.store.Take(ctx)
			if err != nil {
				return fmt.Errorf("Take, when an event is due: %w", err)
			}
			taken <- entry.Event.Key()
		}
		return nil
	})
	close(taken)
	different := map[string]bool{}
	for key := range taken {
		different[key] = true
	}
	b.require(len(different) == events, "%d parallel Takes took %d events, want each event once", events, len(different))
}

func (b inbox) survives() {
	b.put(event(1), event(2), event(3))
	b.is(b.taken())
	b.deadLetter(b.taken())
	running := b.taken()
	b.next()
	again := b.taken()
	b.require(bytes.Equal(again.Event.Body(), running.Event.Body()),
		"Take in the next process: got %q, want %q, which was being acted on", again.Event.Body(), running.Event.Body())
	b.require(again.Tries == 2, "Take in the next process: got Tries %d, want 2, with the try that the end of its process cut short", again.Tries)
	for n := 1; n <= 3; n++ {
		b.seen(event(n), "in the next process")
	}
	b.counts(webhook.InboxCounts{Running: 1, DeadLetters: 1}, "in the next process")
	b.retry(again, 0)
	b.put(event(4))
	b.next()
	b.counts(webhook.InboxCounts{Waiting: 2, DeadLetters: 1}, "in a third process, of what was put and of what will be tried again")
	for range 2 {
		b.is(b.taken())
	}
	b.counts(webhook.InboxCounts{DeadLetters: 1}, "in a third process, after Done")
}

// overtaken takes an event whose claim expires, and takes the event again as another process. It
// skips the rule if claims do not expire.
func (b inbox) overtaken() (first, second *webhook.InboxEntry) {
	b.Helper()
	b.put(event(1))
	first = b.take(1, 1)
	if first.Until.IsZero() {
		b.Skip("not tested: the claims of this inbox do not end")
	}
	left := time.Until(first.Until)
	b.require(left <= patience/2, "the claim lasts for %v; open the inbox with one of %v, as place is told", left, short)
	second = b.take(1, 2)
	after := time.Since(first.Until)
	b.require(after >= short/20, "Take: got an event %v after the end of the claim that somebody has, in Until; want %v at least", after, short/20)
	return first, second
}

func (b inbox) late() {
	first, second := b.overtaken()
	b.retry(first, 0)
	b.deadLetter(first)
	b.counts(webhook.InboxCounts{Running: 1}, "after Retry and DeadLetter by the owner of a claim that had ended, of what another has")
	b.deadLetter(second)
	for range 2 {
		b.counts(webhook.InboxCounts{DeadLetters: 1}, "after DeadLetter by the owner of the claim, and after a late Done")
		b.is(first)
		b.is(second)
	}
}

func (b inbox) lateDone() {
	first, second := b.overtaken()
	b.is(first)
	b.retry(second, 0)
	b.none("it is done, by the owner of a claim that had ended")
	b.counts(webhook.InboxCounts{}, "after Done by the owner of a claim that had ended")
}
