package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lendingapi/lending-go/webhook"
)

// inboxModel is an inbox that keeps its contract except for its flaw.
type inboxModel struct {
	flaw   string
	lease  time.Duration
	mu     sync.Mutex
	seen   map[string]bool
	events []*eventModel

	deadLetters int // number of dead letters so far
	removed     []webhook.Removed
}

type eventModel struct {
	event  *webhook.Event
	where  string // "waiting", "running" or "dead"
	letter webhook.DeadLetter
	tries  int
	claim  int // number of the last claim
	until  time.Time
}

// inboxHandle is the inbox that a process has opened.
type inboxHandle struct{ *inboxModel }

func openInboxes(lease time.Duration) func(tb testing.TB, flaw string) inbox {
	return func(tb testing.TB, flaw string) inbox {
		tb.Helper()
		model := &inboxModel{flaw: flaw, lease: lease, seen: map[string]bool{}}
		return inbox{begin(tb, func() webhook.Inbox {
			switch flaw {
			case "is each process's own":
				model = &inboxModel{flaw: flaw, lease: lease, seen: map[string]bool{}}
			case "forgets in the next process what it has seen":
				clear(model.seen)
			case "loses with its process what was taken":
				model.events = slices.DeleteFunc(model.events, func(e *eventModel) bool { return e.where == "running" })
			}
			return &inboxHandle{model}
		})}
	}
}

func (m *inboxModel) Put(_ context.Context, event *webhook.Event) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seen[event.Key()] {
		return webhook.ErrDuplicate
	}
	if m.flaw == "looks before it locks, in Put" {
		m.mu.Unlock()
		pause()
		m.mu.Lock()
	}
	m.seen[event.Key()] = true
	m.events = append(m.events, &eventModel{event: event, where: "waiting", until: time.Now()})
	return nil
}

func (m *inboxModel) Take(ctx context.Context) (*webhook.InboxEntry, error) {
	for {
		if m.flaw == "keeps what it took when its context ended" && ctx.Err() != nil {
			m.first()
			return nil, ctx.Err()
		}
		if entry := m.first(); entry != nil {
			return entry, nil
		}
		step := 5 * time.Millisecond
		switch m.flaw {
		case "looks again after a while":
			step = patience
		case "does not wait":
			return nil, errors.New("there is none")
		}
		select {
		case <-time.After(step):
		case <-ctx.Done():
			if m.flaw == "outlasts its context" {
				wait(long)
			}
			return nil, ctx.Err()
		}
	}
}

func (m *inboxModel) first() *webhook.InboxEntry {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.events {
		now, ended := time.Now(), e.where == "running"
		switch {
		case e.where == "waiting" && m.flaw == "is blocked by what waits" && now.Before(e.until):
			return nil
		case e.where == "dead", now.Before(e.until), ended && m.flaw == "has claims that do not end":
			continue
		case ended && m.flaw == "does not count a try that was cut short":
			e.tries--
		}
		if m.flaw == "looks before it locks, in Take" {
			m.mu.Unlock()
			pause()
			m.mu.Lock()
		}
		return m.claim(e)
	}
	return nil
}

func (m *inboxModel) claim(e *eventModel) *webhook.InboxEntry {
	e.where, e.until = "running", time.Now().Add(m.lease)
	e.claim++
	e.tries++
	entry := &webhook.InboxEntry{Event: e.event, Tries: e.tries, Until: e.until.Add(-m.lease / 10)}
	entry.ID = fmt.Sprint(e.event.Key(), " ", e.claim)
	switch m.flaw {
	case "gives claims without a margin":
		entry.Until = e.until
	case "gives claims that have ended":
		entry.Until = time.Now()
	case "gives a claim early to another":
		e.until = time.Now().Add(m.lease / 2)
	case "has another name for it":
		changed := *e.event
		changed.Name = "another"
		entry.Event = &changed
	}
	return entry
}

// of calls then with an event if the entry belongs to the last claim.
func (m *inboxModel) of(entry *webhook.InboxEntry, anyClaim bool, where string, then func(e *eventModel)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.events {
		if e.event.Key() == entry.Event.Key() && e.where == where &&
			(anyClaim || entry.ID == fmt.Sprint(e.event.Key(), " ", e.claim)) {
			then(e)
			return nil
		}
	}
	if m.flaw == "fails when it is told again" {
		return errors.New("there is none")
	}
	return nil
}

func (m *inboxModel) Done(_ context.Context, entry *webhook.InboxEntry) error {
	remove := func(done *eventModel) {
		m.events = slices.DeleteFunc(m.events, func(e *eventModel) bool { return e == done })
		if m.flaw == "forgets what is done" {
			delete(m.seen, done.event.Key())
		}
	}
	if m.flaw == "removes what was set aside, by a late Done" {
		_ = m.of(entry, true, "dead", remove)
	}
	return m.of(entry, m.flaw != "keeps what is done late", "running", remove)
}

func (m *inboxModel) Retry(_ context.Context, entry *webhook.InboxEntry, wait time.Duration) error {
	if m.flaw == "does not let an event wait" {
		wait = 0
	}
	retry := func(e *eventModel) {
		e.where, e.until = "waiting", time.Now().Add(wait)
		if m.flaw == "does not count tries" {
			e.tries--
		}
	}
	if m.flaw == "retries what was set aside" {
		_ = m.of(entry, false, "dead", retry)
	}
	return m.of(entry, m.flaw == "retries what is another's", "running", retry)
}

func (m *inboxModel) DeadLetter(_ context.Context, entry *webhook.InboxEntry, cause error) error {
	return m.of(entry, m.flaw == "dead-letters what is another's", "running", func(e *eventModel) {
		e.where = "dead"
		m.describe(e, entry, cause)
		if m.flaw == "forgets what was set aside" {
			delete(m.seen, e.event.Key())
		}
	})
}

func (m *inboxModel) Counts(context.Context) (counts webhook.InboxCounts, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.events {
		switch {
		case e.where == "dead":
			counts.DeadLetters++
		case e.where == "running":
			counts.Running++
		case m.flaw != "counts what is due alone" || !time.Now().Before(e.until):
			counts.Waiting++
		}
	}
	return counts, nil
}

func TestInboxFindsFlaws(t *testing.T) {
	eachFlaw(t, inboxRules, openInboxes(long), map[string][]string{
		"Take returns the event unchanged":        {"gives claims that have ended", "has another name for it"},
		"a second Put of an event is a duplicate": {"forgets what is done", "forgets what was set aside"},
		"Take waits until an event is due":        {"looks again after a while", "does not wait"},
		"Take returns when its context has ended": {"outlasts its context"},
		"a cancelled Take leaves the event due":   {"keeps what it took when its context ended"},
		"Retry delays an event": {
			"is blocked by what waits", "does not let an event wait", "does not count tries", "counts what is due alone",
		},
		"Ages reports how late the inbox is": {"is never late", "is never ready", "has no time of setting aside"},
		"Done removes an event, and DeadLetter sets it aside": {
			"fails when it is told again", "retries what was set aside",
		},
		"parallel Takes share no event": {
			"looks before it locks, in Put", "looks before it locks, in Take",
		},
		"a dead letter has the event and the cause": {
			"keeps no cause", "keeps the cause as it is", "has no time of setting aside", "has an event for every ID",
		},
		"a dead letter can be redriven": {
			"has one ID for an event", "redrives any number at once", "redrives as tried",
		},
		"a dead letter can be dropped": {"lets nobody drop", "drops nothing", "forgets what was dropped", "keeps no removal"},
		"Erase removes the events of a person": {
			"erases short ids", "leaves what runs", "forgets what was erased", "has no limit of removals",
		},
		"a filter selects dead letters, page by page": {
			"filters no names", "begins each page anew", "has no limit", "has the oldest first",
			"limits before it filters",
		},
		"one of many parallel Redrives and Drops succeeds": {"looks before it locks, in Redrive"},
	})
	eachFlaw(t, leaseRules, openInboxes(short), map[string][]string{
		"events survive their process": {
			"is each process's own", "forgets in the next process what it has seen", "loses with its process what was taken",
		},
		"a claim expires, and only its next owner ends it by Retry or DeadLetter": {
			"has claims that do not end", "does not count a try that was cut short",
			"gives a claim early to another", "gives claims without a margin",
			"retries what is another's", "dead-letters what is another's", "removes what was set aside, by a late Done",
		},
		"Done removes an event after the claim has expired": {"keeps what is done late"},
	})
}
