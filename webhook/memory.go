package webhook

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/lendingapi/lending-go/internal/backoff"
	"github.com/lendingapi/lending-go/internal/opaque"
)

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
