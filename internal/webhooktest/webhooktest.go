// Package webhooktest holds what every [lending.Deduper] and every [lending.Inbox] must
// do, and kills processes to see whether they do it.
package webhooktest

import (
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
	ctx := t.Context()
	counts := func(expected lending.InboxCounts) {
		t.Helper()
		got, err := inbox.Counts(ctx)
		want(t, "counts", err, nil)
		if got != expected {
			t.Fatalf("counts: got %+v, want %+v", got, expected)
		}
	}
	take := func(n, tries int) *lending.InboxEntry {
		t.Helper()
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		entry, err := inbox.Take(ctx)
		want(t, "take", err, nil)
		if string(entry.Event.Body()) != string(event(n).Body()) || entry.Event.Key() != event(n).Key() {
			t.Fatalf("took another event, or not the bytes of it: %q", entry.Event.Body())
		}
		if entry.Tries != tries {
			t.Fatalf("event %d: try %d, want %d", n, entry.Tries, tries)
		}
		return entry
	}
	none := func() {
		t.Helper()
		ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		if entry, err := inbox.Take(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("took %v, %v from an inbox where nothing is due", entry, err)
		}
	}

	none()
	want(t, "put", inbox.Put(ctx, event(1)), nil)
	want(t, "put", inbox.Put(ctx, event(2)), nil)
	want(t, "put again", inbox.Put(ctx, event(1)), lending.ErrDuplicate)
	counts(lending.InboxCounts{Waiting: 2})

	first := take(1, 1)
	want(t, "put while running", inbox.Put(ctx, event(1)), lending.ErrDuplicate)
	counts(lending.InboxCounts{Waiting: 1, Running: 1})
	second := take(2, 1)
	none()

	want(t, "done", inbox.Done(ctx, first), nil)
	want(t, "done again", inbox.Done(ctx, first), nil)
	want(t, "put after done", inbox.Put(ctx, event(1)), lending.ErrDuplicate)
	want(t, "retry", inbox.Retry(ctx, second, 300*time.Millisecond), nil)
	counts(lending.InboxCounts{Waiting: 1})
	none()
	want(t, "put", inbox.Put(ctx, event(3)), nil)
	third := take(3, 1) // the one that waits is not in the way
	second = take(2, 2)
	want(t, "retry at once", inbox.Retry(ctx, second, 0), nil)
	second = take(2, 3)
	want(t, "bury", inbox.Bury(ctx, second), nil)
	want(t, "put after burial", inbox.Put(ctx, event(2)), lending.ErrDuplicate)
	counts(lending.InboxCounts{Running: 1, Dead: 1})
	want(t, "done", inbox.Done(ctx, third), nil)
	counts(lending.InboxCounts{Dead: 1})

	// Take waits for what is put later.
	taken := make(chan error, 1)
	go func() {
		entry, err := inbox.Take(ctx)
		if err == nil {
			err = inbox.Done(ctx, entry)
		}
		taken <- err
	}()
	wait(20 * time.Millisecond)
	want(t, "put", inbox.Put(ctx, event(4)), nil)
	select {
	case err := <-taken:
		want(t, "take and done", err, nil)
	case <-time.After(5 * time.Second):
		t.Fatal("Take did not see a new event")
	}
	counts(lending.InboxCounts{Dead: 1})
}
