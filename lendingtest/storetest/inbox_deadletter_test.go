package storetest

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/lendingapi/lending-go/webhook"
)

// describe sets the dead letter of an event. The caller holds the lock.
func (m *inboxModel) describe(e *eventModel, entry *webhook.InboxEntry, cause error) {
	m.deadLetters++
	e.letter = webhook.NewDeadLetter(entry, cause)
	e.letter.ID, e.letter.SetAside = strconv.Itoa(m.deadLetters), time.Now()
	switch m.flaw {
	case "keeps no cause":
		e.letter.Cause = ""
	case "keeps the cause as it is":
		e.letter.Cause = cause.Error()
	case "has one ID for an event":
		e.letter.ID = strconv.Itoa(slices.Index(m.events, e) + 1)
	case "has no time of setting aside":
		e.letter.SetAside = time.Time{}
	}
}

func (h *inboxHandle) DeadLetters(_ context.Context, filter webhook.DeadLetterFilter) (
	page []webhook.DeadLetter, _ error,
) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch h.flaw {
	case "filters no names":
		filter.Event = ""
	case "begins each page anew":
		filter.After = ""
	case "has no limit":
		filter.Limit = webhook.MaxDeadLetters
	}
	filter = filter.WithDefaults()
	after, err := strconv.Atoi(filter.After)
	for _, e := range h.events {
		if id, _ := strconv.Atoi(e.letter.ID); e.where == "dead" && (err != nil || id < after) && filter.Matches(e.letter) {
			page = append(page, e.letter)
		}
	}
	slices.SortFunc(page, func(a, b webhook.DeadLetter) int { return b.SetAside.Compare(a.SetAside) })
	if h.flaw == "has the oldest first" {
		slices.Reverse(page)
	}
	if h.flaw == "limits before it filters" && len(page) > filter.Limit {
		return page[:filter.Limit-1], nil
	}
	return page[:min(len(page), filter.Limit)], nil
}

func (h *inboxHandle) DeadLetterEvent(_ context.Context, id string) (*webhook.Event, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.events {
		if e.where == "dead" && (e.letter.ID == id || h.flaw == "has an event for every ID") {
			return e.event, nil
		}
	}
	return nil, webhook.ErrNoDeadLetter
}

func (h *inboxHandle) Redrive(_ context.Context, ids ...string) (int, error) {
	if len(ids) > webhook.MaxDeadLetters && h.flaw != "redrives any number at once" {
		return 0, errors.New("too many")
	}
	return h.end(ids, func(e *eventModel) {
		e.where, e.until, e.tries = "waiting", time.Now(), 0
		if h.flaw == "redrives as tried" {
			e.tries = e.letter.Tries
		}
	}), nil
}

func (h *inboxHandle) Drop(_ context.Context, by webhook.Decision, ids ...string) (int, error) {
	if (by.By == "" || by.Why == "") && h.flaw != "lets nobody drop" {
		return 0, errors.New("who, and why?")
	}
	if h.flaw == "drops nothing" {
		return h.end(ids, func(*eventModel) {}), nil
	}
	return h.end(ids, func(dropped *eventModel) {
		h.remove(by, dropped)
		if h.flaw == "forgets what was dropped" {
			delete(h.seen, dropped.event.Key())
		}
	}), nil
}

// remove removes an event. The caller holds the lock.
func (h *inboxHandle) remove(by webhook.Decision, removed *eventModel) {
	h.events = slices.DeleteFunc(h.events, func(e *eventModel) bool { return e == removed })
	trace := webhook.NewRemoved(by, removed.letter.ID, removed.event.Key(), removed.event.Name)
	h.removed = append([]webhook.Removed{trace}, h.removed...)
}

func (h *inboxHandle) Erase(_ context.Context, by webhook.Decision, ids ...string) (erased int, _ error) {
	if len(ids[0]) < webhook.MinErased && h.flaw != "erases short ids" {
		return 0, errors.New("short")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range slices.Clone(h.events) {
		if e.event.Mentions(ids...) && (e.where != "running" || h.flaw != "leaves what runs") {
			h.remove(by, e)
			erased++
		}
		if h.flaw == "forgets what was erased" {
			delete(h.seen, e.event.Key())
		}
	}
	return erased, nil
}

func (h *inboxHandle) Removed(_ context.Context, limit int) ([]webhook.Removed, error) {
	if limit <= 0 || h.flaw == "has no limit of removals" {
		limit = len(h.removed)
	}
	if h.flaw == "keeps no removal" {
		return nil, nil
	}
	return h.removed[:min(limit, len(h.removed))], nil
}

// end calls then for each dead letter of ids.
func (h *inboxHandle) end(ids []string, then func(e *eventModel)) (ended int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range slices.Clone(h.events) {
		if e.where == "dead" && slices.Contains(ids, e.letter.ID) {
			if h.flaw == "looks before it locks, in Redrive" {
				h.mu.Unlock()
				pause()
				h.mu.Lock()
			}
			then(e)
			ended++
		}
	}
	return ended
}

func (m *inboxModel) Ages(context.Context) (ages webhook.InboxAges, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.events {
		switch {
		case e.where == "waiting" && m.flaw != "is never late":
			ages.Due = max(ages.Due, time.Since(e.until))
		case e.where == "dead":
			ages.DeadLetter = max(ages.DeadLetter, time.Since(e.letter.SetAside))
		}
	}
	return ages, nil
}

func (m *inboxModel) Ready(context.Context) error {
	if m.flaw == "is never ready" {
		return errors.New("not ready")
	}
	return nil
}
