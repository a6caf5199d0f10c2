package lending

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/lendingapi/lending-go/internal/backoff"
	"github.com/lendingapi/lending-go/internal/safely"
)

// Inbox keeps events that were accepted until they have been acted on. With it the
// service is answered as soon as the event is safe, whatever the action takes:
//
//	http.Handle("/webhooks", lending.NewReceiver(lending.SignedWith(secret), inbox.Put, nil))
//	go lending.Work(ctx, inbox, handle, nil)
//
// contrib/bolt keeps it in a file, which one process has open; contrib/redis in Redis and
// contrib/postgres in PostgreSQL, for a fleet. [NewMemoryInbox] is for tests. Package
// lendingtest/storetest holds one of your own to this.
//
// Whoever has an entry may tell its end twice, as after a lost answer, and after the claim has
// ended. That is no error: Done holds, and Retry and Bury leave alone what is gone or another's.
type Inbox interface {
	// Put is an [EventFunc]. When it has returned nil the event survives the end of the
	// process. It returns [ErrDuplicate] for an event whose key it has seen.
	Put(ctx context.Context, event *Event) error
	// Take waits until an event is due, and claims it, or until ctx ends, and fails.
	Take(ctx context.Context) (*InboxEntry, error)
	// Done removes an event that was acted on.
	Done(ctx context.Context, entry *InboxEntry) error
	// Retry lets an event wait before it is due again.
	Retry(ctx context.Context, entry *InboxEntry, wait time.Duration) error
	// Bury puts an event aside for good, for a person to look at.
	Bury(ctx context.Context, entry *InboxEntry) error
	// Counts returns how many events are in the inbox.
	Counts(ctx context.Context) (InboxCounts, error)
}

// InboxEntry is an event in an [Inbox].
type InboxEntry struct {
	Event   *Event
	Tries   int       // that have ended, with an error each, and this one
	Crashes int       // how often the end of the process cut a try short in which it was acted on alone, see [Work]
	Until   time.Time // when the claim ends, and another may take it; zero if it does not end
	ID      string    // what the inbox knows it by
}

// InboxCounts is how many events are in an [Inbox].
type InboxCounts struct {
	Waiting int // to be taken, those that will be tried again included
	Running int
	Dead    int // put aside
}

// WorkOptions are what can be changed in [Work]. A nil pointer and zero fields leave it
// at the defaults.
type WorkOptions struct {
	Concurrency int                           // how many events are acted on at a time; 4
	Timeout     time.Duration                 // the deadline of the function's context; 1 min
	MaxTries    int                           // after which, or after as many Crashes, an event is put aside; 12
	Backoff     func(tries int) time.Duration // before the next try; from 5 s doubling to 1 h, 12 tries are about two hours
	Observe     func(Handling)                // called after each try, for logs and metrics; its panics are dropped
}

// Handling is one try to act on an event, or, without a Key, a failure of the inbox.
type Handling struct {
	Event    EventName
	Key      string
	Tries    int
	Duration time.Duration
	Err      error // nil if it was acted on
	Buried   bool  // was the last try
}

// Work takes events from inbox and calls handle for each, until ctx ends and the calls
// under way have returned, which ctx does not cut short. No panic in handle or in inbox
// ends it, nor does [runtime.Goexit].
//
// Each event is acted on at least once: again after a failure or a panic of handle, up
// to MaxTries, and after the end of the process before the inbox knew of the success.
// For each of the Concurrency calls under way that is the only window in which an event
// can be acted on twice, except where an inbox has claims that end: handle must heed
// its context, whose deadline is no later than that.
//
// An event during which the process ends may be what ended it, or stand beside it. Such
// a try is none of MaxTries. The inboxes of this library let an event that this has
// happened to twice be acted on alone: if the process ends then too, that is one of its
// Crashes. After MaxTries of them it is put aside; a try that ends clears it.
func Work(ctx context.Context, inbox Inbox, handle EventFunc, opts *WorkOptions) {
	w := worker{inbox: inbox, handle: handle}
	if opts != nil {
		w.WorkOptions = *opts
	}
	setDefault(&w.Concurrency, 4)
	setDefault(&w.MaxTries, 12)
	setDefault(&w.Timeout, time.Minute)
	if w.Backoff == nil {
		w.Backoff = usualBackoff
	}
	for range w.Concurrency {
		w.group.Go(func() { w.run(ctx) })
	}
	w.group.Wait()
}

func usualBackoff(tries int) time.Duration { return backoff.After(tries, 5*time.Second, time.Hour) }

type worker struct {
	WorkOptions
	inbox  Inbox
	handle EventFunc
	group  sync.WaitGroup
}

func (w *worker) run(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; {
		var entry *InboxEntry
		err := safely.Call[PanicError](func() (err error) {
			if entry, err = w.inbox.Take(ctx); err == nil && (entry == nil || entry.Event == nil) {
				err = errors.New("lending: inbox: Take returned no event and no error")
			}
			return err
		})
		switch {
		case err == nil:
			failures = 0
			w.act(ctx, entry)
		case ctx.Err() == nil:
			failures++
			w.observe(Handling{Err: err})
			_ = backoff.Sleep(ctx, backoff.After(failures, 100*time.Millisecond, 10*time.Second))
		}
	}
}

// act calls the function, and tells the inbox what became of it.
func (w *worker) act(ctx context.Context, entry *InboxEntry) {
	h := Handling{Event: entry.Event.Name, Key: entry.Event.Key(), Tries: entry.Tries}
	switch {
	case entry.Crashes >= w.MaxTries:
		h.Err = errors.New("lending: event: the process ended each time that it was acted on")
	case entry.Tries > w.MaxTries: // there were more of them when it was tried last
		h.Err = errors.New("lending: event: tried too often")
	default:
		start := time.Now()
		h.Err = w.call(ctx, entry)
		h.Duration = time.Since(start)
	}
	h.Buried = !accepted(h.Err) && max(entry.Tries, entry.Crashes) >= w.MaxTries
	var wait time.Duration
	if !accepted(h.Err) && !h.Buried {
		wait = w.wait(entry.Tries)
	}
	w.settle(ctx, entry, func(ctx context.Context) error {
		switch {
		case accepted(h.Err):
			return w.inbox.Done(ctx, entry)
		case h.Buried:
			return w.inbox.Bury(ctx, entry)
		}
		return w.inbox.Retry(ctx, entry, wait)
	})
	w.observe(h)
}

func (w *worker) call(ctx context.Context, entry *InboxEntry) error {
	deadline := time.Now().Add(w.Timeout)
	if !entry.Until.IsZero() && entry.Until.Before(deadline) {
		deadline = entry.Until
	}
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	defer cancel()
	return safely.Call[PanicError](func() error { return w.handle(ctx, entry.Event) })
}

// settle tells the inbox, again and again as long as the claim lasts: an event that was
// acted on and is not known to be would be acted on again. A claim that does not end is
// nobody else's to take: the worker goes on after a while, and the telling beside it.
func (w *worker) settle(ctx context.Context, entry *InboxEntry, tell func(context.Context) error) {
	until, ends := entry.Until, !entry.Until.IsZero()
	if !ends {
		until = time.Now().Add(w.Timeout)
	}
	told := func() bool {
		telling, cancel := afterwards(ctx)
		defer cancel()
		err := safely.Call[PanicError](func() error { return tell(telling) })
		if err != nil {
			w.observe(Handling{Err: err})
		}
		return err == nil
	}
	for failures := 1; !told(); failures++ {
		if !time.Now().Before(until) {
			if !ends {
				w.group.Go(func() {
					for !told() && ctx.Err() == nil {
						_ = backoff.Sleep(ctx, w.Timeout)
					}
				})
			}
			return
		}
		_ = backoff.Sleep(context.WithoutCancel(ctx), backoff.After(failures, 20*time.Millisecond, time.Second))
	}
}

// wait is what Backoff says, or the default if that panics.
func (w *worker) wait(tries int) time.Duration {
	wait := usualBackoff(tries)
	_ = safely.Call[PanicError](func() error {
		wait = w.Backoff(tries)
		return nil
	})
	return wait
}

func (w *worker) observe(h Handling) {
	if w.Observe != nil {
		_ = safely.Call[PanicError](func() error {
			w.Observe(h)
			return nil
		})
	}
}

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
