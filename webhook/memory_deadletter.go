package webhook

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/lendingapi/lending-go/internal/claimer"
)

var _ DeadLetters = (*MemoryInbox)(nil)

// memoryDeadLetters are the dead letters of a [MemoryInbox], oldest first.
type memoryDeadLetters struct {
	number  uint64 // of the last
	letters []memoryDeadLetter
}

type memoryDeadLetter struct {
	DeadLetter
	number uint64 // the ID
	event  *Event
}

// setAside adds a dead letter. The caller holds the lock.
func (b *memoryInbox) setAside(event *Event, letter DeadLetter) {
	b.dead.number++
	letter.ID, letter.SetAside = strconv.FormatUint(b.dead.number, 10), time.Now().UTC()
	b.dead.letters = append(b.dead.letters, memoryDeadLetter{letter, b.dead.number, event})
}

// DeadLetters implements [DeadLetters].
func (m *MemoryInbox) DeadLetters(_ context.Context, filter DeadLetterFilter) ([]DeadLetter, error) {
	b := m.state()
	b.mu.Lock()
	defer b.mu.Unlock()
	filter = filter.WithDefaults()
	after, _ := strconv.ParseUint(filter.After, 10, 64)
	var page []DeadLetter
	for _, letter := range b.dead.letters {
		if letter.number > after && filter.Matches(letter.DeadLetter) && len(page) < filter.Limit {
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
	for _, letter := range b.dead.letters {
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
	return m.state().remove(ids, func(event *Event) { m.state().add(&memoryEntry{event: event}, 0) }), nil
}

// Drop implements [DeadLetters].
func (m *MemoryInbox) Drop(_ context.Context, who string, ids ...string) (int, error) {
	if err := claimer.CheckDrop(who, ids); err != nil {
		return 0, err
	}
	return m.state().remove(ids, func(*Event) {}), nil
}

// remove removes dead letters, and calls then for the event of each.
func (b *memoryInbox) remove(ids []string, then func(*Event)) (removed int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	wanted := map[string]bool{}
	for _, id := range ids {
		wanted[id] = true
	}
	b.dead.letters = slices.DeleteFunc(b.dead.letters, func(letter memoryDeadLetter) bool {
		if wanted[letter.ID] {
			removed++
			then(letter.event)
		}
		return wanted[letter.ID]
	})
	return removed
}
