package lending

import (
	"context"
	"slices"
	"sync"
	"time"
)

// MemoryInbox is an [Inbox] that loses everything with the process: for tests.
type MemoryInbox struct {
	state func() *memoryInbox // behind a function, where nothing that prints or compares looks
}

// memoryInbox is what a [MemoryInbox] holds.
type memoryInbox struct {
	mu      sync.Mutex
	changed chan struct{} // closed and made anew when an event is added
	seen    map[string]bool
	waiting []*memoryEntry // by time
	running map[*InboxEntry]*memoryEntry
	dead    []*memoryEntry
}

type memoryEntry struct {
	event *Event
	tries int
	due   time.Time
}

// NewMemoryInbox returns an empty inbox.
func NewMemoryInbox() *MemoryInbox {
	b := &memoryInbox{changed: make(chan struct{}), seen: map[string]bool{}, running: map[*InboxEntry]*memoryEntry{}}
	return &MemoryInbox{state: func() *memoryInbox { return b }}
}

// Put implements [Inbox].
func (m *MemoryInbox) Put(ctx context.Context, event *Event) error {
	b := m.state()
	b.mu.Lock()
	defer b.mu.Unlock()
	key := event.Key()
	if b.seen[key] {
		return ErrDuplicate
	}
	b.seen[key] = true
	b.add(&memoryEntry{event: event, due: time.Now()})
	return nil
}

// add puts e among those that wait. The caller holds the lock.
func (b *memoryInbox) add(e *memoryEntry) {
	at, _ := slices.BinarySearchFunc(b.waiting, e.due.Add(1), func(w *memoryEntry, due time.Time) int { return w.due.Compare(due) })
	b.waiting = slices.Insert(b.waiting, at, e)
	close(b.changed)
	b.changed = make(chan struct{})
}

// Take implements [Inbox].
func (m *MemoryInbox) Take(ctx context.Context) (*InboxEntry, error) {
	b := m.state()
	for {
		b.mu.Lock()
		wait, changed := time.Hour, b.changed
		if len(b.waiting) > 0 {
			e := b.waiting[0]
			if wait = time.Until(e.due); wait <= 0 {
				b.waiting = slices.Delete(b.waiting, 0, 1)
				e.tries++
				entry := &InboxEntry{Event: e.event, Tries: e.tries, ID: e.event.Key()}
				b.running[entry] = e
				b.mu.Unlock()
				return entry, nil
			}
		}
		b.mu.Unlock()
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-changed:
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
		timer.Stop()
	}
}

// Done implements [Inbox].
func (m *MemoryInbox) Done(ctx context.Context, entry *InboxEntry) error {
	m.state().release(entry, func(*memoryEntry) {})
	return nil
}

// Retry implements [Inbox].
func (m *MemoryInbox) Retry(ctx context.Context, entry *InboxEntry, wait time.Duration) error {
	b := m.state()
	b.release(entry, func(e *memoryEntry) {
		e.due = time.Now().Add(wait)
		b.add(e)
	})
	return nil
}

// Bury implements [Inbox].
func (m *MemoryInbox) Bury(ctx context.Context, entry *InboxEntry) error {
	b := m.state()
	b.release(entry, func(e *memoryEntry) { b.dead = append(b.dead, e) })
	return nil
}

// release ends the claim of entry, and calls then if there was one.
func (b *memoryInbox) release(entry *InboxEntry, then func(*memoryEntry)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.running[entry]; e != nil {
		delete(b.running, entry)
		then(e)
	}
}

// Counts implements [Inbox].
func (m *MemoryInbox) Counts(ctx context.Context) (InboxCounts, error) {
	b := m.state()
	b.mu.Lock()
	defer b.mu.Unlock()
	return InboxCounts{Waiting: len(b.waiting), Running: len(b.running), Dead: len(b.dead)}, nil
}
