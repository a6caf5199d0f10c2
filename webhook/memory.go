package webhook

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

// DeadLetter implements [Inbox].
func (m *MemoryInbox) DeadLetter(ctx context.Context, entry *InboxEntry) error {
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
	return InboxCounts{Waiting: len(b.waiting), Running: len(b.running), DeadLetters: len(b.dead)}, nil
}

// NewMemoryDeduper returns a [Deduper] for one process. It forgets everything when
// the process ends, and takes about 200 bytes for each key until Keep has passed.
func NewMemoryDeduper(opts *DeduperOptions) Deduper {
	d := &dedupeState{options: opts.WithDefaults(), keys: map[string]*claimState{}}
	return memoryDeduper{func() *dedupeState { return d }}
}

// memoryDeduper and memoryClaim hold their state behind a function, where nothing that
// prints or compares looks.
type (
	memoryDeduper struct{ state func() *dedupeState }
	memoryClaim   struct{ state func() *claimState }
)

type dedupeState struct {
	options DeduperOptions

	mu   sync.Mutex
	keys map[string]*claimState
	done []*claimState // in the order in which they are forgotten
}

type claimState struct {
	deduper *dedupeState
	key     string
	done    bool
	until   time.Time // when the claim ends, or when what is done is forgotten
}

func (m memoryDeduper) Claim(ctx context.Context, key string) (Claim, error) {
	d := m.state()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	for len(d.done) > 0 && !now.Before(d.done[0].until) {
		if forgotten := d.done[0]; d.keys[forgotten.key] == forgotten {
			delete(d.keys, forgotten.key)
		}
		d.done[0] = nil
		d.done = d.done[1:]
	}
	if c := d.keys[key]; c != nil && c.done {
		return nil, ErrDuplicate
	} else if c != nil && now.Before(c.until) {
		return nil, ErrClaimed
	}
	c := &claimState{deduper: d, key: key, until: now.Add(d.options.Lease)}
	d.keys[key] = c
	return memoryClaim{func() *claimState { return c }}, nil
}

func (m memoryClaim) Done(context.Context) error {
	c := m.state()
	c.deduper.mu.Lock()
	defer c.deduper.mu.Unlock()
	if !c.done {
		c.done, c.until = true, time.Now().Add(c.deduper.options.Keep)
		c.deduper.keys[c.key] = c
		c.deduper.done = append(c.deduper.done, c)
	}
	return nil
}

func (m memoryClaim) Release(context.Context) error {
	c := m.state()
	c.deduper.mu.Lock()
	defer c.deduper.mu.Unlock()
	if c.deduper.keys[c.key] == c && !c.done {
		delete(c.deduper.keys, c.key)
	}
	return nil
}
