package webhook

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/backoff"
	"github.com/lendingapi/lending-go/internal/safely"
)

// WorkOptions are what can be changed in [Work]. A nil pointer and zero fields leave it
// at the defaults.
type WorkOptions struct {
	Concurrency int                           // how many events are acted on at a time; 4
	Timeout     time.Duration                 // the deadline of the function's context; 1 min
	MaxTries    int                           // after which, or after as many Crashes, an event is set aside; 12
	Backoff     func(tries int) time.Duration // before the next try; from 5 s doubling to 1 h, 12 tries are about two hours
	Observe     func(Result)                  // called after each try, for logs and metrics; its panics are dropped
}

// Result is one try to act on an event, or, without a Key, a failure of the inbox.
type Result struct {
	Event        lending.EventName
	Key          string
	Tries        int
	Duration     time.Duration
	Err          error // nil if it was acted on
	DeadLettered bool  // was the last try
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
// Crashes. After MaxTries of them it is set aside; a try that ends clears it.
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
		err := safely.Call[lending.PanicError](func() (err error) {
			if entry, err = w.inbox.Take(ctx); err == nil && (entry == nil || entry.Event == nil) {
				err = errors.New("lending/webhook: inbox: Take returned no event and no error")
			}
			return err
		})
		switch {
		case err == nil:
			failures = 0
			w.act(ctx, entry)
		case ctx.Err() == nil:
			failures++
			w.observe(Result{Err: err})
			_ = backoff.Sleep(ctx, backoff.After(failures, 100*time.Millisecond, 10*time.Second))
		}
	}
}

// act calls the function, and tells the inbox what became of it.
func (w *worker) act(ctx context.Context, entry *InboxEntry) {
	h := Result{Event: entry.Event.Name, Key: entry.Event.Key(), Tries: entry.Tries}
	switch {
	case entry.Crashes >= w.MaxTries:
		h.Err = errors.New("lending/webhook: event: the process ended each time that it was acted on")
	case entry.Tries > w.MaxTries: // there were more of them when it was tried last
		h.Err = errors.New("lending/webhook: event: tried too often")
	default:
		start := time.Now()
		h.Err = w.call(ctx, entry)
		h.Duration = time.Since(start)
	}
	h.DeadLettered = !accepted(h.Err) && max(entry.Tries, entry.Crashes) >= w.MaxTries
	var wait time.Duration
	if !accepted(h.Err) && !h.DeadLettered {
		wait = w.wait(entry.Tries)
	}
	w.settle(ctx, entry, func(ctx context.Context) error {
		switch {
		case accepted(h.Err):
			return w.inbox.Done(ctx, entry)
		case h.DeadLettered:
			return w.inbox.DeadLetter(ctx, entry)
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
	return safely.Call[lending.PanicError](func() error { return w.handle(ctx, entry.Event) })
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
		err := safely.Call[lending.PanicError](func() error { return tell(telling) })
		if err != nil {
			w.observe(Result{Err: err})
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
	_ = safely.Call[lending.PanicError](func() error {
		wait = w.Backoff(tries)
		return nil
	})
	return wait
}

func (w *worker) observe(h Result) {
	if w.Observe != nil {
		_ = safely.Call[lending.PanicError](func() error {
			w.Observe(h)
			return nil
		})
	}
}
