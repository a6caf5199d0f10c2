package lending

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// Inbox keeps events that were accepted until they have been acted on. With it the
// service is answered as soon as the event is safe, whatever the action takes:
//
//	http.Handle("/webhooks", lending.NewReceiver(lending.SignedWith(secret), inbox.Put, nil))
//	go lending.Work(ctx, inbox, handle, nil)
//
// contrib/bolt keeps it in a file, which one process has open; contrib/redis in Redis,
// for a fleet. [NewMemoryInbox] is for tests.
type Inbox interface {
	// Put is an [EventFunc]. When it has returned nil the event survives the end of the
	// process. It returns [ErrDuplicate] for an event whose key it has seen.
	Put(ctx context.Context, event *Event) error
	// Take waits until an event is due, and claims it.
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
	Event *Event
	Tries int       // how often it was taken, this time included
	Until time.Time // when the claim ends, and another may take it; zero if it does not end
	ID    string    // what the inbox knows it by
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
	MaxTries    int                           // after which an event is put aside; 12
	Backoff     func(tries int) time.Duration // before the next try; from 5 s doubling to 1 h, 12 tries are about two hours
	Observe     func(Handling)                // called after each try, for logs and metrics
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
// under way have returned, which ctx does not cut short.
//
// Each event is acted on at least once: again after a failure or a panic of handle,
// and after the end of the process before the inbox knew of the success, up to
// MaxTries. For each of the Concurrency calls under way that is the only window in
// which an event can be acted on twice, except where an inbox has claims that end:
// handle must heed its context, whose deadline is no later than that.
func Work(ctx context.Context, inbox Inbox, handle EventFunc, opts *WorkOptions) {
	w := worker{inbox: inbox, handle: handle}
	if opts != nil {
		w.WorkOptions = *opts
	}
	setDefault(&w.Concurrency, 4)
	setDefault(&w.MaxTries, 12)
	setDefault(&w.Timeout, time.Minute)
	if w.Backoff == nil {
		w.Backoff = func(tries int) time.Duration { return doubling(tries, 5*time.Second, time.Hour) }
	}
	if w.Observe == nil {
		w.Observe = func(Handling) {}
	}
	var group sync.WaitGroup
	for range w.Concurrency {
		group.Go(func() { w.run(ctx) })
	}
	group.Wait()
}

type worker struct {
	WorkOptions
	inbox  Inbox
	handle EventFunc
}

func (w *worker) run(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; {
		entry, err := w.inbox.Take(ctx)
		switch {
		case err == nil:
			failures = 0
			w.act(ctx, entry)
		case ctx.Err() == nil:
			failures++
			w.Observe(Handling{Err: err})
			pause(ctx, doubling(failures, 100*time.Millisecond, 10*time.Second))
		}
	}
}

// act calls the function, and tells the inbox what became of it.
func (w *worker) act(ctx context.Context, entry *InboxEntry) {
	ctx = context.WithoutCancel(ctx)
	h := Handling{Event: entry.Event.Name, Key: entry.Event.Key(), Tries: entry.Tries}
	if entry.Tries > w.MaxTries { // the last try ended the process
		h.Err = errors.New("lending: event: tried too often")
	} else {
		start := time.Now()
		h.Err = w.call(ctx, entry)
		h.Duration = time.Since(start)
	}
	h.Buried = !accepted(h.Err) && entry.Tries >= w.MaxTries
	w.settle(ctx, entry, func() error {
		switch {
		case accepted(h.Err):
			return w.inbox.Done(ctx, entry)
		case h.Buried:
			return w.inbox.Bury(ctx, entry)
		}
		return w.inbox.Retry(ctx, entry, w.Backoff(entry.Tries))
	})
	w.Observe(h)
}

func (w *worker) call(ctx context.Context, entry *InboxEntry) error {
	deadline := time.Now().Add(w.Timeout)
	if !entry.Until.IsZero() && entry.Until.Before(deadline) {
		deadline = entry.Until
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	return safely(func() error { return w.handle(ctx, entry.Event) })
}

// settle tells the inbox, again and again as long as the claim lasts: an event that was
// acted on and is not known to be would be acted on again.
func (w *worker) settle(ctx context.Context, entry *InboxEntry, tell func() error) {
	until := entry.Until
	if until.IsZero() {
		until = time.Now().Add(w.Timeout)
	}
	for failures := 1; ; failures++ {
		err := tell()
		if err == nil {
			return
		}
		w.Observe(Handling{Err: err})
		if !time.Now().Before(until) {
			return // another will take it
		}
		pause(ctx, doubling(failures, 20*time.Millisecond, time.Second))
	}
}

// doubling doubles from first to most, and takes between half and all of that.
func doubling(n int, first, most time.Duration) time.Duration {
	d := most
	if n < 30 {
		d = min(first<<(n-1), most)
	}
	return d/2 + rand.N(d/2+1)
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
