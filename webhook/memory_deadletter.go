package webhook

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/lendingapi/lending-go/internal/claimer"
)

var _ DeadLetters = (*MemoryInbox)(nil)

type memoryDeadLetter struct {
	DeadLetter
	number uint64 // the ID
	event  *Event
}

// setAside adds a dead letter. The caller holds the lock.
func (b *memoryInbox) setAside(event *Event, letter DeadLetter) {
	b.last++
	letter.ID, letter.SetAside = strconv.FormatUint(b.last, 10), time.Now().UTC()
	b.dead = append(b.dead, memoryDeadLetter{letter, b.last, event})
}

// DeadLetters implements [DeadLetters].
func (m *MemoryInbox) DeadLetters(_ context.Context, filter DeadLetterFilter) ([]DeadLetter, error) {
	b := m.state()
	b.mu.Lock()
	defer b.mu.Unlock()
	filter = filter.WithDefaults()
	after, err := strconv.ParseUint(filter.After, 10, 64)
	var page []DeadLetter
	for _, letter := range slices.Backward(b.dead) {
		if (err != nil || letter.number < after) && filter.Matches(letter.DeadLetter) && len(page) < filter.Limit {
			page = append(page, letter.DeadLetter)
		}
	}
	return page, nil
}

// DeadLetterEvent implements [DeadLetters].
func (m *MemoryInbox) DeadLetterEvent(_ context.Context, id string) (*Event, error) {
	b := m.state()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, letter := range b.dead {
		if letter.ID == id {
			return letter.event, nil
		}
	}
	return nil, ErrNoDeadLetter
}

// Redrive implements [DeadLetters].
func (m *MemoryInbox) Redrive(_ context.Context, ids ...string) (int, error) {
	if err := claimer.CheckRedrive(ids); err != nil {
		return 0, err
	}
	return m.state().remove(ids, func(_ string, event *Event) { m.state().add(&memoryEntry{event: event}, 0) }), nil
}

// Drop implements [DeadLetters].
func (m *MemoryInbox) Drop(_ context.Context, by Decision, ids ...string) (int, error) {
	if err := claimer.CheckDrop(by.By, by.Why, ids); err != nil {
		return 0, err
	}
	return m.state().remove(ids, m.state().trace(by)), nil
}

// Erase implements [DeadLetters].
func (m *MemoryInbox) Erase(_ context.Context, by Decision, ids ...string) (int, error) {
	if err := claimer.CheckErase(by.By, by.Why, ids); err != nil {
		return 0, err
	}
	b := m.state()
	b.mu.Lock()
	defer b.mu.Unlock()
	trace := b.trace(by)
	erased := 0
	erases := func(id string, event *Event) bool {
		if !event.Mentions(ids...) {
			return false
		}
		erased++
		trace(id, event)
		return true
	}
	b.waiting = slices.DeleteFunc(b.waiting, func(e *memoryEntry) bool { return erases("", e.event) })
	maps.DeleteFunc(b.running, func(_ *InboxEntry, e *memoryEntry) bool { return erases("", e.event) })
	b.dead = slices.DeleteFunc(b.dead, func(l memoryDeadLetter) bool { return erases(l.ID, l.event) })
	return erased, nil
}

// trace returns a function that adds to the list of removals. The caller holds the lock.
func (b *memoryInbox) trace(by Decision) func(id string, event *Event) {
	return func(id string, event *Event) {
		b.removed = append(b.removed, NewRemoved(by, id, event.Key(), event.Name))
	}
}

// Removed implements [DeadLetters].
func (m *MemoryInbox) Removed(_ context.Context, limit int) ([]Removed, error) {
	b := m.state()
	b.mu.Lock()
	defer b.mu.Unlock()
	newest := slices.Clone(b.removed)
	slices.Reverse(newest)
	return newest[:min(len(newest), claimer.Limit(limit))], nil
}

// remove removes dead letters, and calls then for each.
func (b *memoryInbox) remove(ids []string, then func(id string, event *Event)) (removed int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dead = slices.DeleteFunc(b.dead, func(letter memoryDeadLetter) bool {
		wanted := slices.Contains(ids, letter.ID)
		if wanted {
			removed++
			then(letter.ID, letter.event)
		}
		return wanted
	})
	return removed
}
