package webhook

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/lendingapi/lending-go/internal/backoff"
	"github.com/lendingapi/lending-go/internal/opaque"
)

// MemoryInbox is an [Inbox] for tests. It loses everything with the process.
type MemoryInbox struct{ state opaque.Value[*memoryInbox] }

type memoryInbox struct {
	mu      sync.Mutex
	changed chan struct{} // closed and replaced when an event is added
	seen    map[string]bool
	waiting []*memoryEntry // by due
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

// claim claims the first event that is due. If there is none, it returns how long to wait, and a
// channel that is closed when an event is added.
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
	entry = e.entry()
	b.running[entry] = e
	return entry, 0, nil
}

func (e *memoryEntry) entry() *InboxEntry {
	return &InboxEntry{Event: e.event, Tries: e.tries, ID: e.event.Key()}
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

// DeadLetter implements [Inbox]. [MemoryInbox.DeadLetters] lists the event then.
func (m *MemoryInbox) DeadLetter(_ context.Context, entry *InboxEntry) error {
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

// DeadLetters returns the dead letters, oldest first.
func (m *MemoryInbox) DeadLetters(context.Context) ([]*InboxEntry, error) {
	b := m.state()
	b.mu.Lock()
	defer b.mu.Unlock()
	var entries []*InboxEntry
	for _, e := range b.dead {
		entries = append(entries, e.entry())
	}
	return entries, nil
}

// Redrive makes a dead letter due again, as if it had not been tried.
func (m *MemoryInbox) Redrive(_ context.Context, entry *InboxEntry) error {
	b := m.state()
	b.mu.Lock()
	defer b.mu.Unlock()
	at := slices.IndexFunc(b.dead, func(e *memoryEntry) bool { return e.event.Key() == entry.ID })
	if at >= 0 {
		b.add(&memoryEntry{event: b.dead[at].event}, 0)
		b.dead = slices.Delete(b.dead, at, at+1)
	}
	return nil
}

// Counts implements [Inbox].
func (m *MemoryInbox) Counts(context.Context) (InboxCounts, error) {
	b := m.state()
	b.mu.Lock()
	defer b.mu.Unlock()
	return InboxCounts{Waiting: len(b.waiting), Running: len(b.running), DeadLetters: len(b.dead)}, nil
}

// NewMemoryDeduper returns a [Deduper] for one process. It forgets everything when the process
// ends, and needs about 200 bytes of memory for each key until Keep has passed.
func NewMemoryDeduper(opts *DeduperOptions) Deduper {
	d := &dedupeState{options: opts.WithDefaults(), keys: map[string]*claimState{}}
	return memoryDeduper{opaque.Hide(d)}
}

type (
	memoryDeduper struct{ state opaque.Value[*dedupeState] }
	memoryClaim   struct{ state opaque.Value[*claimState] }
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
	until   time.Time // when the claim ends, or when the done key is forgotten
}

func (m memoryDeduper) Claim(ctx context.Context, key string) (Claim, error) {
	d := m.state()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	d.forget(now)
	if c := d.keys[key]; c != nil && c.done {
		return nil, ErrDuplicate
	} else if c != nil && now.Before(c.until) {
		return nil, ErrClaimed
	}
	c := &claimState{deduper: d, key: key, until: now.Add(d.options.Lease)}
	d.keys[key] = c
	return memoryClaim{opaque.Hide(c)}, nil
}

// forget removes the done keys whose time has passed. The caller holds the lock.
func (d *dedupeState) forget(now time.Time) {
	for len(d.done) > 0 && !now.Before(d.done[0].until) {
		if forgotten := d.done[0]; d.keys[forgotten.key] == forgotten {
			delete(d.keys, forgotten.key)
		}
		d.done[0] = nil
		d.done = d.done[1:]
	}
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
