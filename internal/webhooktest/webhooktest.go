// Package webhooktest holds what every [lending.Deduper] and every [lending.Inbox] must
// do, and kills processes to see whether they do it.
package webhooktest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lendingapi/lending-go"
)

// wait passes real time, or virtual time in a bubble of testing/synctest.
func wait(d time.Duration) { <-time.After(d) }

// want stops the test unless err is the error, or nil.
func want(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("%s: got error %v, want %v", what, err, want)
	}
}

// Deduper tests the deduper that open makes, on an empty store.
func Deduper(t *testing.T, open func(lending.DeduperOptions) lending.Deduper) {
	t.Helper()
	const lease, keep = 300 * time.Millisecond, 900 * time.Millisecond
	ctx := t.Context()
	d := open(lending.DeduperOptions{Lease: lease, Keep: keep})
	claim := func(key string, expected error) lending.Claim {
		t.Helper()
		c, err := d.Claim(ctx, key)
		want(t, "claim "+key, err, expected)
		return c
	}

	// Claimed, then free again.
	c := claim("a", nil)
	claim("a", lending.ErrClaimed)
	claim("b", nil)
	want(t, "release", c.Release(ctx), nil)
	c = claim("a", nil)

	// Done, then forgotten.
	want(t, "done", c.Done(ctx), nil)
	claim("a", lending.ErrDuplicate)
	want(t, "release after done", c.Release(ctx), nil)
	claim("a", lending.ErrDuplicate)
	wait(lease + lease/4)
	claim("a", lending.ErrDuplicate)
	wait(keep)
	claim("a", nil)

	// A claim that has ended is not the first one's to release, but what it did is done.
	first := claim("c", nil)
	wait(lease + lease/4)
	second := claim("c", nil)
	want(t, "late release", first.Release(ctx), nil)
	claim("c", lending.ErrClaimed)
	want(t, "late done", first.Done(ctx), nil)
	claim("c", lending.ErrDuplicate)
	want(t, "release of what another has done", second.Release(ctx), nil)
	claim("c", lending.ErrDuplicate)
	wait(keep / 2)
	want(t, "done twice", second.Done(ctx), nil)
	wait(keep * 3 / 4)
	claim("c", lending.ErrDuplicate) // it is remembered from the last time on

	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := d.Claim(cancelled, "d"); !errors.Is(err, context.Canceled) {
		t.Fatalf("claim with an ended context: %v", err)
	}
}

// event returns the nth event, of which no two are equal.
func event(n int) *lending.Event {
	e, err := lending.ParseEvent([]byte(fmt.Sprintf("\ufeff{\"webhookEvent\":\"WB_Loan_Opened\",\"data\":{\"n\":%d}} ", n)))
	if err != nil {
		panic(err)
	}
	return e
}

// Inbox tests an empty inbox.
func Inbox(t *testing.T, inbox lending.Inbox) {
	t.Helper()
	i := inboxTest{t, inbox}
	i.none()
	i.duplicates()
	i.tries()
	i.late()
	i.waits(4, func() { i.put(4, nil) })
	i.put(6, nil)
	again := i.take(6, 1)
	i.waits(6, func() { want(t, "retry", inbox.Retry(t.Context(), again, 0), nil) })
}

type inboxTest struct {
	t     *testing.T
	inbox lending.Inbox
}

// duplicates leaves event 2 running.
func (i inboxTest) duplicates() {
	i.t.Helper()
	i.put(1, nil)
	i.put(2, nil)
	i.put(1, lending.ErrDuplicate)
	i.counts(lending.InboxCounts{Waiting: 2})
	first := i.take(1, 1)
	i.put(1, lending.ErrDuplicate)
	i.counts(lending.InboxCounts{Waiting: 1, Running: 1})
	i.take(2, 1)
	i.none()
	want(i.t, "done", i.inbox.Done(i.t.Context(), first), nil)
	want(i.t, "done again", i.inbox.Done(i.t.Context(), first), nil)
	i.put(1, lending.ErrDuplicate)
	i.counts(lending.InboxCounts{Running: 1})
}

func (i inboxTest) tries() {
	i.t.Helper()
	ctx := i.t.Context()
	i.put(5, nil)
	later := i.take(5, 1)
	want(i.t, "retry", i.inbox.Retry(ctx, later, 300*time.Millisecond), nil)
	i.counts(lending.InboxCounts{Waiting: 1, Running: 1})
	i.none()
	i.put(3, nil)
	third := i.take(3, 1) // the one that waits is not in the way
	later = i.take(5, 2)
	want(i.t, "retry at once", i.inbox.Retry(ctx, later, 0), nil)
	later = i.take(5, 3)
	want(i.t, "bury", i.inbox.Bury(ctx, later), nil)
	i.put(5, lending.ErrDuplicate)
	i.counts(lending.InboxCounts{Running: 2, Dead: 1})
	want(i.t, "done", i.inbox.Done(ctx, third), nil)
	i.counts(lending.InboxCounts{Running: 1, Dead: 1})
}

// late tells the inbox of an event what it has been told to be done.
func (i inboxTest) late() {
	i.t.Helper()
	ctx := i.t.Context()
	i.put(7, nil)
	entry := i.take(7, 1)
	want(i.t, "done", i.inbox.Done(ctx, entry), nil)
	want(i.t, "late retry", i.inbox.Retry(ctx, entry, 0), nil)
	want(i.t, "late bury", i.inbox.Bury(ctx, entry), nil)
	i.counts(lending.InboxCounts{Running: 1, Dead: 1})
}

// waits takes event n, which becomes due later.
func (i inboxTest) waits(n int, makeDue func()) {
	i.t.Helper()
	ctx := i.t.Context()
	taken := make(chan error, 1)
	go func() {
		entry, err := i.inbox.Take(ctx)
		if err == nil && entry.Event.Key() != event(n).Key() {
			err = errors.New("took another event")
		}
		if err == nil {
			err = i.inbox.Done(ctx, entry)
		}
		taken <- err
	}()
	wait(20 * time.Millisecond)
	makeDue()
	select {
	case err := <-taken:
		want(i.t, "take and done", err, nil)
	case <-time.After(5 * time.Second):
		i.t.Fatal("Take did not see a new event")
	}
	i.counts(lending.InboxCounts{Running: 1, Dead: 1})
}

func (i inboxTest) put(n int, expected error) {
	i.t.Helper()
	want(i.t, fmt.Sprint("put event ", n), i.inbox.Put(i.t.Context(), event(n)), expected)
}

func (i inboxTest) counts(expected lending.InboxCounts) {
	i.t.Helper()
	got, err := i.inbox.Counts(i.t.Context())
	want(i.t, "counts", err, nil)
	if got != expected {
		i.t.Fatalf("counts: got %+v, want %+v", got, expected)
	}
}

func (i inboxTest) take(n, tries int) *lending.InboxEntry {
	i.t.Helper()
	ctx, cancel := context.WithTimeout(i.t.Context(), 5*time.Second)
	defer cancel()
	entry, err := i.inbox.Take(ctx)
	want(i.t, "take", err, nil)
	if !bytes.Equal(entry.Event.Body(), event(n).Body()) || entry.Event.Key() != event(n).Key() {
		i.t.Fatalf("took another event, or not the bytes of it: %q", entry.Event.Body())
	}
	if entry.Tries != tries {
		i.t.Fatalf("event %d: try %d, want %d", n, entry.Tries, tries)
	}
	return entry
}

// none holds that nothing is due.
func (i inboxTest) none() {
	i.t.Helper()
	ctx, cancel := context.WithTimeout(i.t.Context(), 50*time.Millisecond)
	defer cancel()
	if entry, err := i.inbox.Take(ctx); !errors.Is(err, context.DeadlineExceeded) {
		i.t.Fatalf("took %v, %v from an inbox where nothing is due", entry, err)
	}
}
