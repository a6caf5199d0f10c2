package webhook

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/lendingapi/lending-go/internal/backoff"
	"github.com/lendingapi/lending-go/internal/claimer"
	"github.com/lendingapi/lending-go/internal/opaque"
)

var _ DeadLetters = (*MemoryInbox)(nil)

// MemoryInbox is an [Inbox] for tests. Its events are lost with the process.
type MemoryInbox struct{ state opaque.Value[*memoryInbox] }

type memoryInbox struct {
	mu      sync.Mutex
	changed chan struct{} // closed and replaced when an event is added
	seen    map[string]bool
	waiting []*memoryEntry // by due
	running map[*InboxEntry]*memoryEntry
	dead    []memoryDeadLetter // the oldest first
	last    uint64             // the number of the last dead letter
	removed []Removed
}

type memoryEntry struct {
	event *Event
	tries int
	due   time.Time
}

type memoryDeadLetter struct {
	DeadLetter
	number uint64 // the ID
	event  *Event
}

// NewMemoryInbox returns an empty inbox.
func NewMemoryInbox() *MemoryInbox {
	b := &memoryInbox{changed: make(chan struct{}), seen: map[string]bool{}, running: map[*InboxEntry]*memoryEntry{}}
	return &MemoryInbox{opaque.Hide(b)}
}

// Put implements [Inbox].
func (m *MemoryInbox) Put(_ context.Context, event *Event) error {
	b := m.state()
	b.mu.Lock()
	defer b.mu.Unlock()
	key := event.Key()
	if b.seen[key] {
		return ErrDuplicate
	}
	b.seen[key] = true
	b.add(&memoryEntry{event: event}, 0)
	return nil
}

// add makes e due after wait. The caller holds the lock.
func (b *memoryInbox) add(e *memoryEntry, wait time.Duration) {
	e.due = time.Now().Add(wait)
	at, _ := slices.BinarySearchFunc(b.waiting, e.due.Add(1), func(w *memoryEntry, due time.Time) int {
		return w.due.Compare(due)
	})
	b.waiting = slices.Insert(b.waiting, at, e)
	close(b.changed)
	b.changed = make(chan struct{})
}

// Take implements [Inbox].
func (m *MemoryInbox) Take(ctx context.Context) (*InboxEntry, error) {
	for {
		entry, wait, changed := m.state().claim()
		if entry != nil {
			return entry, nil
		}
		if err := backoff.Wait(ctx, wait, changed); err != nil {
			return nil, err
		}
	}
}

// claim claims the first due event. If no event is due, claim returns the time to wait, and a
// channel closed when an event is added.
func (b *memoryInbox) claim() (entry *InboxEntry, wait time.Duration, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	wait = time.Hour
	if len(b.waiting) > 0 {
		wait = time.Until(b.waiting[0].due)
	}
	if wait > 0 {
		return nil, wait, b.changed
	}
	e := b.waiting[0]
	b.waiting = slices.Delete(b.waiting, 0, 1)
	e.tries++
	entry = &InboxEntry{Event: e.event, Tries: e.tries, ID: e.event.Key()}
	b.running[entry] = e
	return entry, 0, nil
}

// Done implements [Inbox].
func (m *MemoryInbox) Done(_ context.Context, entry *InboxEntry) error {
	m.state().release(entry, func(*memoryEntry) {})
	return nil
}

// Retry implements [Inbox].
func (m *MemoryInbox) Retry(_ context.Context, entry *InboxEntry, wait time.Duration) error {
	b := m.state()
	b.release(entry, func(e *memoryEntry) { b.add(e, wait) })
	return nil
}

// DeadLetter implements [Inbox].
func (m *MemoryInbox) DeadLetter(_ context.Context, entry *InboxEntry, cause error) error {
	b := m.state()
	b.release(entry, func(e *memoryEntry) { b.setAside(e.event, NewDeadLetter(entry, cause)) })
	return nil
}

// release ends the claim of entry, if any, and calls then.
func (b *memoryInbox) release(entry *InboxEntry, then func(*memoryEntry)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.running[entry]; e != nil {
		delete(b.running, entry)
		then(e)
	}
}

// Counts implements [Inbox].
func (m *MemoryInbox) Counts(context.Context) (InboxCounts, error) {
	b := m.state()
	b.mu.Lock()
	defer b.mu.Unlock()
	return InboxCounts{Waiting: len(b.waiting), Running: len(b.running), DeadLetters: len(b.dead)}, nil
}

// Ages implements [Inbox].
func (m *MemoryInbox) Ages(context.Context) (ages InboxAges, err error) {
	b := m.state()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) > 0 {
		ages.Due = max(0, time.Since(b.waiting[0].due))
	}
	if len(b.dead) > 0 {
		ages.DeadLetter = time.Since(b.dead[0].SetAside)
	}
	return ages, nil
}

// Ready implements [Inbox]. It returns nil.
func (*MemoryInbox) Ready(context.Context) error { return nil }

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
