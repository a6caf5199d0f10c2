package storetest

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lendingapi/lending-go/webhook"
)

// leasedInbox is an inbox in memory whose claims expire.
type leasedInbox struct {
	*webhook.MemoryInbox
	lease time.Duration

	mu     sync.Mutex
	claims map[string]*webhook.InboxEntry // the last claim of each event
	done   []string
}

// flawedInbox is the inbox that a process has opened. It keeps the contract except for its flaw.
type flawedInbox struct {
	*leasedInbox
	flaw string
}

func openInboxes(lease time.Duration) func(tb testing.TB, flaw string) inbox {
	return func(tb testing.TB, flaw string) inbox {
		tb.Helper()
		fresh := func() *leasedInbox {
			return &leasedInbox{MemoryInbox: webhook.NewMemoryInbox(), lease: lease, claims: map[string]*webhook.InboxEntry{}}
		}
		shared := fresh()
		return inbox{begin(tb, func() webhook.Inbox {
			if flaw == "is each process's own" {
				shared = fresh()
			}
			return &flawedInbox{shared, flaw}
		})}
	}
}

func (f *flawedInbox) Put(ctx context.Context, e *webhook.Event) error {
	err := f.MemoryInbox.Put(ctx, e)
	switch {
	case f.flaw == "sees no duplicates", f.flaw == "forgets what is done" && slices.Contains(f.done, e.Key()),
		f.flaw == "forgets what was set aside" && f.counted().DeadLetters > 0,
		f.flaw == "forgets what was removed" && f.isRemoved(e):
		return nil
	}
	return err
}

func (f *flawedInbox) counted() webhook.InboxCounts {
	counts, _ := f.MemoryInbox.Counts(context.Background())
	return counts
}

func (f *flawedInbox) isRemoved(e *webhook.Event) bool {
	removed, _ := f.MemoryInbox.Removed(context.Background(), 0)
	return slices.ContainsFunc(removed, func(r webhook.Removed) bool { return r.Key == e.Key() })
}

func (f *flawedInbox) Take(ctx context.Context) (*webhook.InboxEntry, error) {
	switch f.flaw {
	case "does not wait":
		if f.counted().Waiting == 0 {
			return nil, errors.New("there is none")
		}
	case "looks again after a while":
		if f.counted().Waiting == 0 {
			wait(patience)
		}
	case "keeps what it took when its context ended":
		if ctx.Err() != nil {
			_, _ = f.MemoryInbox.Take(context.WithoutCancel(ctx))
			return nil, ctx.Err()
		}
	case "gives an event to many workers":
		if first := f.last(&webhook.InboxEntry{Event: event(0)}); first != nil {
			return first, nil
		}
	}
	entry, err := f.MemoryInbox.Take(ctx)
	if err != nil {
		if f.flaw == "outlasts its context" {
			wait(long)
		}
		return nil, err
	}
	f.expire(entry)
	switch f.flaw {
	case "gives claims without a margin":
		entry.Until = entry.Until.Add(f.lease / 10)
	case "gives claims that have ended":
		entry.Until = time.Now()
	case "has another name for it":
		entry.Event.Name = "another"
	case "does not count tries":
		entry.Tries = 1
	}
	return entry, nil
}

// expire makes the event of a claim due again when the claim expires.
func (f *flawedInbox) expire(entry *webhook.InboxEntry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.claims[entry.Event.Key()] = entry
	entry.Until = time.Now().Add(f.lease - f.lease/10)
	lease := f.lease
	switch f.flaw {
	case "has claims that do not end":
		return
	case "gives a claim early to another":
		lease /= 2
	}
	time.AfterFunc(lease, func() { _ = f.MemoryInbox.Retry(context.Background(), entry, 0) })
}

// last returns the last claim of the event.
func (f *flawedInbox) last(entry *webhook.InboxEntry) *webhook.InboxEntry {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.claims[entry.Event.Key()]
}

func (f *flawedInbox) Done(ctx context.Context, entry *webhook.InboxEntry) error {
	f.done = append(f.done, entry.Event.Key())
	switch f.flaw {
	case "fails when it is told again":
		if f.counted().Running == 0 {
			return errors.New("there is none")
		}
	case "keeps what is done late":
		return f.MemoryInbox.Done(ctx, entry)
	case "removes what was set aside, by a late Done":
		letters, _ := f.MemoryInbox.DeadLetters(ctx, webhook.DeadLetterFilter{})
		for _, letter := range letters {
			_, _ = f.MemoryInbox.Drop(ctx, decision, letter.ID)
		}
	}
	return f.MemoryInbox.Done(ctx, f.last(entry))
}

func (f *flawedInbox) Retry(ctx context.Context, entry *webhook.InboxEntry, delay time.Duration) error {
	switch f.flaw {
	case "does not let an event wait":
		delay = 0
	case "retries what was set aside":
		letters, _ := f.MemoryInbox.DeadLetters(ctx, webhook.DeadLetterFilter{})
		for _, letter := range letters {
			_, _ = f.MemoryInbox.Redrive(ctx, letter.ID)
		}
	case "retries what is another's":
		entry = f.last(entry)
	}
	return f.MemoryInbox.Retry(ctx, entry, delay)
}

func (f *flawedInbox) DeadLetter(ctx context.Context, entry *webhook.InboxEntry, cause error) error {
	switch f.flaw {
	case "keeps no cause":
		cause = errors.New("none")
	case "dead-letters what is another's":
		entry = f.last(entry)
	}
	return f.MemoryInbox.DeadLetter(ctx, entry, cause)
}

func (f *flawedInbox) Counts(ctx context.Context) (webhook.InboxCounts, error) {
	counts, err := f.MemoryInbox.Counts(ctx)
	if ages, _ := f.MemoryInbox.Ages(ctx); f.flaw == "counts what is due alone" && ages.Due == 0 {
		counts.Waiting = 0
	}
	return counts, err
}

func (f *flawedInbox) Ages(ctx context.Context) (webhook.InboxAges, error) {
	ages, err := f.MemoryInbox.Ages(ctx)
	if f.flaw == "is never late" {
		ages.Due = 0
	}
	return ages, err
}

func (f *flawedInbox) Ready(ctx context.Context) error {
	if f.flaw == "is never ready" {
		return errors.New("not ready")
	}
	return f.MemoryInbox.Ready(ctx)
}

func (f *flawedInbox) DeadLetters(ctx context.Context, filter webhook.DeadLetterFilter) ([]webhook.DeadLetter, error) {
	name, limit := filter.Event, filter.WithDefaults().Limit
	switch f.flaw {
	case "filters no names", "limits before it filters":
		filter.Event = ""
	case "begins each page anew":
		filter.After = ""
	case "has no limit":
		filter.Limit = 0
	}
	page, err := f.MemoryInbox.DeadLetters(ctx, filter)
	switch f.flaw {
	case "limits before it filters":
		page = slices.DeleteFunc(page[:min(limit, len(page))], func(l webhook.DeadLetter) bool {
			return l.Event != cmp.Or(name, l.Event)
		})
	case "has the oldest first":
		slices.Reverse(page)
	case "has no time of setting aside":
		for i := range page {
			page[i].SetAside = time.Time{}
		}
	case "has one ID for an event":
		for i := range page {
			page[i].ID = "1"
		}
	}
	return page, err
}

func (f *flawedInbox) DeadLetterEvent(ctx context.Context, id string) (*webhook.Event, error) {
	if f.flaw == "has an event for every ID" {
		return named("WB_Loan_Opened", 1), nil
	}
	return f.MemoryInbox.DeadLetterEvent(ctx, id)
}

func (f *flawedInbox) Redrive(ctx context.Context, ids ...string) (int, error) {
	if f.flaw == "redrives any number at once" {
		ids = slices.Compact(ids)
	}
	n, err := f.MemoryInbox.Redrive(ctx, ids...)
	if f.flaw == "counts what it does not redrive" {
		n = len(ids)
	}
	return n, err
}

func (f *flawedInbox) Drop(ctx context.Context, by webhook.Decision, ids ...string) (int, error) {
	switch f.flaw {
	case "lets anybody drop":
		by = decision
	case "drops nothing":
		return len(ids), nil
	}
	return f.MemoryInbox.Drop(ctx, by, ids...)
}

func (f *flawedInbox) Erase(ctx context.Context, by webhook.Decision, ids ...string) (int, error) {
	switch f.flaw {
	case "erases short ids":
		ids[0] += strings.Repeat("-", webhook.MinErased)
	case "erases nothing":
		return 4, nil
	}
	return f.MemoryInbox.Erase(ctx, by, ids...)
}

func (f *flawedInbox) Removed(ctx context.Context, limit int) ([]webhook.Removed, error) {
	switch f.flaw {
	case "keeps no removal":
		return nil, nil
	case "has no limit of removals":
		limit = 0
	}
	return f.MemoryInbox.Removed(ctx, limit)
}

func TestInboxFindsFlaws(t *testing.T) {
	eachFlaw(t, inboxRules, openInboxes(long), map[string][]string{
		"Take returns the event unchanged":        {"gives claims that have ended", "has another name for it"},
		"a second Put of an event is a duplicate": {"forgets what is done", "forgets what was set aside"},
		"Take waits until an event is due":        {"looks again after a while", "does not wait"},
		"Take returns when its context has ended": {"outlasts its context"},
		"a cancelled Take leaves the event due":   {"keeps what it took when its context ended"},
		"Retry delays an event": {
			"does not let an event wait", "does not count tries", "counts what is due alone",
		},
		"Ages reports how late the inbox is": {"is never late", "is never ready"},
		"Done removes an event, and DeadLetter sets it aside": {
			"fails when it is told again", "retries what was set aside",
		},
		"parallel Takes share no event": {
			"sees no duplicates", "gives an event to many workers",
		},
		"a dead letter has the event and the cause": {
			"keeps no cause", "has no time of setting aside", "has an event for every ID",
		},
		"a dead letter can be redriven": {
			"has one ID for an event", "redrives any number at once",
		},
		"a dead letter can be dropped": {
			"lets anybody drop", "drops nothing", "forgets what was removed", "keeps no removal",
		},
		"Erase removes the events of a person": {
			"erases short ids", "erases nothing", "forgets what was removed", "has no limit of removals",
		},
		"a filter selects dead letters, page by page": {
			"filters no names", "begins each page anew", "has no limit", "has the oldest first",
			"limits before it filters",
		},
		"one of many parallel Redrives and Drops succeeds": {"counts what it does not redrive"},
	})
	eachFlaw(t, leaseRules, openInboxes(short), map[string][]string{
		"events survive their process": {
			"is each process's own", "sees no duplicates", "has claims that do not end",
		},
		"a claim expires, and only its next owner ends it by Retry or DeadLetter": {
			"has claims that do not end", "does not count tries",
			"gives a claim early to another", "gives claims without a margin",
			"retries what is another's", "dead-letters what is another's", "removes what was set aside, by a late Done",
		},
		"Done removes an event after the claim has expired": {"keeps what is done late"},
	})
}
