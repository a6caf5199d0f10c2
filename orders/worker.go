// Package orders completes open orders. The program lists its open orders, and advances an order in a
// function, the step, which also records the end of the order. A [Worker] decides when to call the
// step.
//
//	worker, err := orders.New(table.Open, step, &orders.Options{Lock: lock.Lock})
//
//	receiver, err := webhook.NewReceiver(webhook.SignedWith(secret), worker.OnEvent(ordersOf), nil)
//
//	err = worker.Run(ctx)
//
// The worker is level-triggered, like a controller of Kubernetes: only the open orders count,
// not the events. A webhook is a hint to run an order's step now. The service promises no
// redelivery and lists no events, so the worker also makes a pass over all open orders every
// minute. A lost event costs at most the time until the next pass.
//
// # The list of open orders
//
// Keep the orders in a table of your own. The list needs no outbox and no queue:
//
//	INSERT INTO orders (id, request, state, version) VALUES ($1, $2, 'open', 1) -- when you accept the order
//	SELECT id FROM orders WHERE state = 'open'                                  -- the list
//
// The INSERT belongs to the transaction that accepts the order. After its commit, call
// [Worker.Hint] with the order; if the process dies before, the next pass finds the order.
//
// # The step
//
// A step reads the row of its order, returns nil if the order is not open, advances the order as far
// as possible, and saves the row with the version that the step has read:
//
//	UPDATE orders SET state = $3, …, version = version + 1 WHERE id = $1 AND version = $2
//	UPDATE orders SET state = 'done', …, version = version + 1 WHERE id = $1 -- the money has moved
//
// If the first statement finds no row, another replica has changed the order: the step calls
// [Worker.Hint], and runs again with the new row. Otherwise two replicas count a mistake of the
// customer twice, or end an order that the other replica completes. The second statement needs no
// version, because a completed order is complete in any case.
//
// The step returns nil if the rest waits for others, for example for an underwriter. The next pass or
// event calls the step again, as long as the order is open. A hint, or the list of another replica, can
// also name an order that has ended. Never call Log.Forget in a step: a late step would send its
// mutations again. Forget the keys days after the end of an order.
//
// Every mutation of a step needs an idempotency key made of the order: see
// [lending.WithIdempotencyKey]. The log then replays finished mutations, and repeating a step
// has no effect. Open a document in the step that uploads it: a document that was read cannot be
// uploaded again. The step runs again after every error that allows a retry, after every restart,
// and in every replica.
//
// # Errors
//
// [lending.NextOf] decides what follows an error of a step:
//
//   - Retry: the worker waits for Next.After. Nothing shortens this wait. If After is 0, the
//     worker waits for 1 second, doubling up to 5 minutes while the same call fails, and an event
//     or a hint ends the wait.
//   - Person and Retry: each pass calls the step again, and so does [Worker.Hint], so that a
//     verdict or a correction is taken up at once. Set Resolved of package ops to Hint.
//   - No Retry: the same request would fail again. The service rejected the mutation, an argument is
//     wrong, or a mutation without a key may have happened. Before the step returns the error, the step
//     saves the end of the order with the reason, or another way to go on, for example the key of
//     a new attempt. For the other way, the step calls Hint.
//
// If the order is still open at the next pass after an error without a retry, the program has a
// mistake. The worker does not call the step, and reports the mistake at each pass, until Hint is
// called for the order.
//
// Options.Report gets every error. Result.Repeated marks an error like the last one of the order.
// A panic in a step is an error with Person and Retry. If a step never returns, against the deadline of
// its context, the step keeps its place among the concurrent steps, and holds Run.
//
// # Replicas
//
// Any number of workers may share the orders. With Options.Lock, one step of an order runs at a time
// in all replicas, and the second replica waits for 1 second, doubling while the first one's step
// runs. The version of the row protects the order if the lock is lost, for example with the
// connection to the database.
//
// Without Lock the workers share only the log of idempotency keys. If two workers take the same order,
// the second gets idempotency.ErrInProgress or ErrLocked. A pass takes the orders in random order, so
// this is rare.
//
// If a process dies in a step, the others wait for the end of StepTimeout before they end its mutation.
// A mutation that no read shows is sent again after MaxLateness of the log. After a fault no order
// waits longer, except for a person.
//
// The worker keeps nothing on disk. In memory it keeps the orders that wait.
package orders

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/backoff"
	"github.com/lendingapi/lending-go/internal/base64json"
	"github.com/lendingapi/lending-go/internal/safely"
	"github.com/lendingapi/lending-go/webhook"
)

// Options change how a [Worker] works. Zero fields mean the defaults.
type Options struct {
	Every          time.Duration // between the begin of two passes; 1 min
	Concurrency    int           // steps at the same time; 8
	StepsPerMinute int           // steps that begin in a minute, evenly spread; 600
	StepTimeout    time.Duration // deadline of the context of a step, and of a pass; 1 min
	Report         func(Result)  // called after each step and each failed pass; its panics are dropped

	// Lock takes the lock of an order before its step, and unlock ends the lock. If another replica has
	// the lock, the error is [ErrBusy]. OrderLock of contrib/postgres has such a method. Nil means no
	// lock.
	Lock func(ctx context.Context, order string) (unlock func(), err error)
}

// ErrBusy means that another replica has the lock of an order: see Options.Lock. The worker tries again,
// and reports nothing.
var ErrBusy = errors.New("lending/orders: another replica has the lock of the order; try again")

// Result is the result of a step or, if Order is empty, the failure of a pass.
type Result struct {
	Order    string
	Err      error
	Next     lending.Next // of Err; zero if there is none
	Repeated bool         // the last step of the order failed at the same call
	Duration time.Duration
}

// Worker calls the step of the open orders: see [New].
type Worker struct {
	options Options
	open    func(context.Context) ([]string, error)
	step    func(ctx context.Context, order string) error
	wake    chan struct{} // signals news for Run
	isRun   atomic.Bool

	mu      sync.Mutex
	queue   queue
	running int       // steps
	free    time.Time // earliest start of the next step
}

// New returns a worker. open lists the open orders of the program, and step advances an order. Many
// goroutines call step at the same time, for different orders.
func New(
	open func(context.Context) ([]string, error), step func(ctx context.Context, order string) error, opts *Options,
) (*Worker, error) {
	w := &Worker{open: open, step: step, wake: make(chan struct{}, 1)}
	w.queue = queue{orders: map[string]*order{}, ended: map[string]bool{}}
	w.options = *cmp.Or(opts, new(Options))
	o := &w.options
	switch {
	case open == nil || step == nil:
		return nil, errors.New("lending/orders: open and step are required")
	case o.Every < 0 || o.Concurrency < 0 || o.StepsPerMinute < 0 || o.StepTimeout < 0:
		return nil, errors.New("lending/orders: an option is negative; set 0 for its default")
	}
	o.Every, o.StepTimeout = cmp.Or(o.Every, time.Minute), cmp.Or(o.StepTimeout, time.Minute)
	o.Concurrency, o.StepsPerMinute = cmp.Or(o.Concurrency, 8), cmp.Or(o.StepsPerMinute, 600)
	return w, nil
}

// Hint has the worker run the steps of orders now, before the orders of a pass: of a new order,
// and of an order that waits for a person, once the person has acted. Call Hint at any time, in
// any replica. A hint during the step of the order runs the step again afterwards. Only a wait by order of the service or the log goes on.
func (w *Worker) Hint(orders ...string) { w.hint(orders, true) }

func (w *Worker) hint(orders []string, byPerson bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range orders {
		w.queue.hint(id, byPerson)
	}
	w.tell()
}

// OnEvent returns a function for [webhook.NewReceiver] or [webhook.Work]. The function has the
// worker run the steps of an event's orders now, except orders that wait for a person. It never
// fails: a pass replaces a lost event.
func (w *Worker) OnEvent(concerns func(*webhook.Event) []string) webhook.EventFunc {
	return func(_ context.Context, event *webhook.Event) error {
		w.hint(concerns(event), false)
		return nil
	}
}

// Run works until ctx ends, and returns its error when all steps have returned. The end of ctx
// does not cancel the steps. A worker runs once at a time.
func (w *Worker) Run(ctx context.Context) error {
	if !w.isRun.CompareAndSwap(false, true) {
		return errors.New("lending/orders: the worker is running already; call Run once")
	}
	defer w.isRun.Store(false)
	var group sync.WaitGroup
	group.Go(func() { w.passes(ctx) })
	for timer := time.NewTimer(0); ctx.Err() == nil; {
		timer.Reset(w.start(ctx, &group))
		select {
		case <-ctx.Done():
		case <-w.wake:
		case <-timer.C:
		}
	}
	group.Wait()
	return ctx.Err()
}

// tell wakes Run.
func (w *Worker) tell() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// idle is how long Run sleeps if nothing is due and nobody wakes it.
const idle = time.Hour

// start begins the due steps, as far as the bounds allow, and returns the time until the next step.
func (w *Worker) start(ctx context.Context, group *sync.WaitGroup) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.running < w.options.Concurrency {
		now := time.Now()
		next := w.queue.first()
		if next == nil {
			return idle
		}
		if wait := max(next.due.Sub(now), w.free.Sub(now)); wait > 0 {
			return min(wait, idle)
		}
		w.free = now.Add(time.Minute / time.Duration(w.options.StepsPerMinute))
		w.queue.take(next)
		w.running++
		group.Go(func() { w.work(ctx, next) })
	}
	return idle // the end of a step wakes Run
}

// work calls the step of an order, and puts the order back.
func (w *Worker) work(ctx context.Context, o *order) {
	begin := time.Now()
	result, failed := w.contained(Result{Order: o.id}, func() error {
		if o.over != nil {
			return fmt.Errorf("%w: %w", errStillOpen, o.over)
		}
		ctx, stop := context.WithTimeout(base64json.WithReopened(context.WithoutCancel(ctx)), w.options.StepTimeout)
		defer stop()
		return w.locked(ctx, o.id)
	})
	result.Duration = time.Since(begin)
	result.Repeated = result.Err != nil && o.failed == failed
	if failed.kind != isBusy {
		w.report(result)
	}

	w.mu.Lock()
	defer w.mu.Unlock()
	w.running--
	if result.Err == nil {
		w.queue.done(o)
	} else {
		w.queue.put(o, result.Err, result.Next, failed)
	}
	w.tell()
}

var errStillOpen = errors.New("lending/orders: the order is still open after an error that no retry ends: " +
	"correct the step, which records the end of the order, then call Hint")

// locked calls the step of an order under the lock.
func (w *Worker) locked(ctx context.Context, id string) error {
	if w.options.Lock != nil {
		unlock, err := w.options.Lock(ctx, id)
		if err != nil {
			return err
		}
		defer unlock()
	}
	return w.step(ctx, id)
}

// contained returns the result of a function of the caller, even after a panic.
func (w *Worker) contained(result Result, f func() error) (_ Result, failed failure) {
	returned := false
	judge := func(err error) {
		result.Next = lending.NextOf(err) // calls methods of err
		failed = failureOf(err, result.Next)
	}
	result.Err = safely.Call[lending.PanicError](func() error {
		err := f()
		judge(err)
		returned = true
		return err
	})
	if !returned {
		judge(result.Err)
	}
	return result, failed
}

func (w *Worker) report(result Result) {
	if w.options.Report != nil {
		_ = safely.Call[lending.PanicError](func() error { w.options.Report(result); return nil })
	}
}

// passes lists the open orders every so often.
func (w *Worker) passes(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; {
		begin := time.Now()
		var open []string
		w.mu.Lock()
		w.queue.beginPass()
		w.mu.Unlock()
		result, _ := w.contained(Result{}, func() (err error) {
			ctx, stop := context.WithTimeout(ctx, w.options.StepTimeout)
			defer stop()
			open, err = w.open(ctx)
			return err
		})
		pause := w.options.Every - time.Since(begin)
		switch {
		case result.Err == nil:
			failures = 0
			w.mu.Lock()
			w.queue.endPass(open)
			w.tell()
			w.mu.Unlock()
		case ctx.Err() == nil:
			failures++
			pause = min(backoff.After(failures, time.Second, w.options.Every), w.options.Every)
			result.Duration = time.Since(begin)
			w.report(result)
		}
		_ = backoff.Sleep(ctx, max(pause, 0))
	}
}
