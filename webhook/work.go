package webhook

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/backoff"
	"github.com/lendingapi/lending-go/internal/claimer"
	"github.com/lendingapi/lending-go/internal/safely"
)

// WorkOptions change how [Work] handles events. Zero fields mean the defaults.
type WorkOptions struct {
	Concurrency int                           // events handled at the same time; 4
	Timeout     time.Duration                 // deadline of the function's context; 1 min
	MaxTries    int                           // tries after which an event is a dead letter; 12
	Backoff     func(tries int) time.Duration // wait before the next try; 5 s, doubling up to 1 h: 12 tries take about 2 hours
	Observe     func(Result)                  // called after each try, for logs and metrics; its panics are dropped
}

// Result is the result of a try to handle an event or, if Key is empty, a failure of the inbox.
type Result struct {
	Event        lending.EventName
	Key          string
	Tries        int // number of tries so far
	Duration     time.Duration
	Err          error // nil if the event was handled
	DeadLettered bool  // after the last try: the event is a dead letter
}

// Work takes events from inbox and calls handle for each. If handle returns an error or panics,
// Work calls handle again after a pause, up to MaxTries times. Then the event is a dead letter.
//
// Work returns when ctx has ended and the calls in progress have returned. The end of ctx does
// not cancel these calls. A call that never returns, against the deadline of its context, keeps its
// place among the concurrent events, and holds Work. An inbox that fails delays the return by 5
// seconds at most; the event is handled again. No panic or [runtime.Goexit] in handle or inbox ends
// Work.
//
// Work handles each event at least once. Make handle safe to repeat: if the process ends after
// handle has succeeded and before the inbox knows, Work handles the event again. If claims
// expire, the inbox gives the event to another worker after its claim. The context of handle
// ends before.
//
// If the process ends during a try, or a claim expires, the try counts too: an event that ends the
// process becomes a dead letter after MaxTries. The events of such a process are due again at
// different times, so that they hardly meet again. If another cause ended the process that
// often, an event may be set aside without fault; redrive it.
func Work(ctx context.Context, inbox Inbox, handle EventFunc, opts *WorkOptions) {
	w := worker{inbox: inbox, handle: handle, WorkOptions: *cmp.Or(opts, new(WorkOptions))}
	claimer.SetDefault(&w.Concurrency, 4)
	claimer.SetDefault(&w.MaxTries, 12)
	claimer.SetDefault(&w.Timeout, time.Minute)
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

// run handles events, each after the other, until ctx ends.
func (w *worker) run(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; {
		entry, err := w.take(ctx)
		switch {
		case err == nil:
			failures = 0
			result := w.try(ctx, entry)
			w.record(ctx, entry, w.endOf(entry, result))
			w.observe(result)
		case ctx.Err() == nil:
			failures++
			w.observe(Result{Err: err})
			_ = backoff.Sleep(ctx, backoff.After(failures, 100*time.Millisecond, 10*time.Second))
		}
	}
}

func (w *worker) take(ctx context.Context) (entry *InboxEntry, err error) {
	err = safely.Call[lending.PanicError](func() (err error) {
		if entry, err = w.inbox.Take(ctx); err == nil && (entry == nil || entry.Event == nil) {
			err = errors.New("lending/webhook: inbox: Take returned no event and no error; correct the inbox")
		}
		return err
	})
	return entry, err
}

// try calls the function, unless the event has used its tries: the last try did not end, or
// MaxTries was higher. The claim is no try then.
func (w *worker) try(ctx context.Context, entry *InboxEntry) Result {
	r := Result{Event: entry.Event.Name, Key: entry.Event.Key(), Tries: entry.Tries}
	if entry.Tries > w.MaxTries {
		entry.Tries--
		r.Tries, r.Err = entry.Tries, errUsed
	} else {
		start := time.Now()
		r.Err = w.call(ctx, entry)
		r.Duration = time.Since(start)
	}
	r.DeadLettered = !accepted(r.Err) && entry.Tries >= w.MaxTries
	return r
}

var errUsed = errors.New("lending/webhook: the process ended, or the claim expired, during the last try; redrive the event when the cause is fixed")

func (w *worker) call(ctx context.Context, entry *InboxEntry) error {
	deadline := time.Now().Add(w.Timeout)
	if !entry.Until.IsZero() && entry.Until.Before(deadline) {
		deadline = entry.Until
	}
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	defer cancel()
	return safely.Call[lending.PanicError](func() error { return w.handle(ctx, entry.Event) })
}

// endOf returns the method of the inbox that ends the claim.
func (w *worker) endOf(entry *InboxEntry, r Result) func(context.Context) error {
	switch {
	case accepted(r.Err):
		return func(ctx context.Context) error { return w.inbox.Done(ctx, entry) }
	case r.DeadLettered:
		return func(ctx context.Context) error { return w.inbox.DeadLetter(ctx, entry, r.Err) }
	}
	wait := w.wait(entry.Tries)
	return func(ctx context.Context) error { return w.inbox.Retry(ctx, entry, wait) }
}

// record calls end until end succeeds, because otherwise a handled event would be handled again.
// After the claim has expired, record gives up: another worker may have the event. If claims do
// not expire, nobody else can take the event. Then the worker moves on after Timeout, while
// record continues in the background.
//
// After the end of ctx the inbox has farewell to record the end.
func (w *worker) record(ctx context.Context, entry *InboxEntry, end func(context.Context) error) {
	longer, stop := lasting(ctx)
	defer stop()
	until, ends := entry.Until, !entry.Until.IsZero()
	if !ends {
		until = time.Now().Add(w.Timeout)
	}
	for failures := 1; !w.recorded(longer, end) && longer.Err() == nil; failures++ {
		if !time.Now().Before(until) {
			if !ends {
				w.group.Go(func() {
					longer, stop := lasting(ctx)
					defer stop()
					for !w.recorded(longer, end) {
						if backoff.Sleep(ctx, w.Timeout) != nil {
							return
						}
					}
				})
			}
			return
		}
		_ = backoff.Sleep(longer, backoff.After(failures, 20*time.Millisecond, time.Second))
	}
}

// farewell is the time of a failing inbox after the end of Work's context.
const farewell = 5 * time.Second

// lasting returns a context that ends farewell after ctx, or after this call if ctx has ended.
func lasting(ctx context.Context) (longer context.Context, stop func()) {
	longer, end := context.WithCancel(context.WithoutCancel(ctx))
	disarm := context.AfterFunc(ctx, func() { time.AfterFunc(farewell, end) })
	return longer, func() { disarm(); end() }
}

// recorded calls end once, and reports success.
func (w *worker) recorded(ctx context.Context, end func(context.Context) error) bool {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	err := safely.Call[lending.PanicError](func() error { return end(ctx) })
	if err != nil {
		w.observe(Result{Err: err})
	}
	return err == nil
}

// wait returns the result of Backoff, or the default if Backoff panics.
func (w *worker) wait(tries int) time.Duration {
	wait := usualBackoff(tries)
	_ = safely.Call[lending.PanicError](func() error {
		wait = w.Backoff(tries)
		return nil
	})
	return wait
}

func (w *worker) observe(r Result) {
	if w.Observe != nil {
		_ = safely.Call[lending.PanicError](func() error {
			w.Observe(r)
			return nil
		})
	}
}
