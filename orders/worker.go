// Package orders completes open orders. The program lists its open orders, advances an order in a
// function, the step, and records the end of an order without success in another function,
// over. A [Worker] decides when to call the functions.
//
//	worker, err := orders.New(table.Open, step, over, nil)
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
//	INSERT INTO orders (id, request, state) VALUES ($1, $2, 'open') -- when you accept the order
//	SELECT id FROM orders WHERE state = 'open'                      -- the list
//	UPDATE orders SET state = 'done' WHERE id = $1                  -- the end of the step
//	UPDATE orders SET state = 'over', reason = $2 WHERE id = $1     -- over
//
// The INSERT belongs to the transaction that accepts the order. After its commit, call
// [Worker.Hint] with the order; if the process dies before, the next pass finds the order.
//
// # The step
//
// A step advances its order as far as possible, and returns nil if the rest waits for others,
// for example for an underwriter. The next pass or event calls the step again, as long as the
// order is open. The program removes a finished order from its list.
//
// A step must be safe to call for a finished order: begin it with a read of your table,
// and return nil if the order is not open. Another replica may have listed the order before its
// end, and a hint calls the step also of an unlisted order. Never call Log.Forget in a
// step: a late step would send its mutations again. Forget the keys days after the end of an order.
//
// Every mutation of a step needs an idempotency key made of the order: see
// [lending.WithIdempotencyKey]. The log then replays finished mutations, and repeating a step
// has no effect. The step runs again after every error that allows a retry, after every restart,
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
//   - No Retry: the order is over. The same request would fail again: the service rejected the
//     mutation, an argument is wrong, or a mutation without a key may have happened.
//
// The worker calls over once for an order that is over. Over records the reason, and takes the
// order out of the list. The worker does not call the step again. Once a person or the program has
// corrected the order and listed it again, the next pass or a Hint calls the step. If over fails,
// the next pass calls over again.
//
// Over can also leave the order in the list, to go on in another way: it stores the corrected
// request, or a new key for a new attempt, and calls Hint. A step ends an order without an error, for
// example after a declined application, in the table itself, and returns nil.
//
// Options.Report gets every error. Result.Repeated marks an error like the last one of the order.
// A panic in a step is an error with Person and Retry.
//
// # Replicas
//
// Any number of workers may share the orders. The workers share only the log of idempotency
// keys. If two workers take the same order, the second gets idempotency.ErrInProgress or
// ErrLocked and waits as long as the error says. A pass takes the orders in random order, so
// this is rare. If a process dies in a step, the others wait for the end of StepTimeout before they
// end its mutation. A mutation that no read shows is sent again after MaxLateness of the log.
// After a fault no order waits longer, except for a person.
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
}

// Result is the result of a step or, if Order is empty, the failure of a pass.
type Result struct {
	Order    string
	Err      error
	Next     lending.Next // of Err; zero if there is none
	Over     bool         // over has recorded that Err ended the order
	Repeated bool         // the last step of the order failed at the same call
	Duration time.Duration
}

// Worker calls the step of the open orders: see [New].
type Worker struct {
	options Options
	open    func(context.Context) ([]string, error)
	step    func(ctx context.Context, order string) error
	over    func(ctx context.Context, order string, err error) error
	wake    chan struct{} // signals news for Run
	isRun   atomic.Bool

	mu      sync.Mutex
	queue   queue
	running int       // steps
	free    time.Time // earliest start of the next step
}

// New returns a worker. open lists the open orders of the program, step advances an order, and over
// records that err has ended an order. Many goroutines call step and over at the same time, for
// different orders.
func New(
	open func(context.Context) ([]string, error),
	step func(ctx context.Context, order string) error,
	over func(ctx context.Context, order string, err error) error,
	opts *Options,
) (*Worker, error) {
	w := &Worker{open: open, step: step, over: over, wake: make(chan struct{}, 1)}
	w.queue = queue{orders: map[string]*order{}, ended: map[string]bool{}}
	w.options = *cmp.Or(opts, new(Options))
	o := &w.options
	switch {
	case open == nil || step == nil || over == nil:
		return nil, errors.New("lending/orders: open, step and over are required")
	case o.Every < 0 || o.Concurrency < 0 || o.StepsPerMinute < 0 || o.StepTimeout < 0:
		return nil, errors.New("lending/orders: an option is negative; set 0 for its default")
	}
	o.Every, o.StepTimeout = cmp.Or(o.Every, time.Minute), cmp.Or(o.StepTimeout, time.Minute)
	o.Concurrency, o.StepsPerMinute = cmp.Or(o.Concurrency, 8), cmp.Or(o.StepsPerMinute, 600)
	return w, nil
}

// Hint has the worker run the steps of orders now, before the orders of a pass: of a new order,
// and of an order that waits for a person, once the person has acted. Call Hint at any time, in
// any replica. Only a wait by order of the service or the log goes on.
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

// work calls the step of an order, or over, and puts the order back.
func (w *Worker) work(ctx context.Context, o *order) {
	ctx = context.WithoutCancel(ctx)
	begin := time.Now()
	result, failed := w.contained(Result{Order: o.id}, func() error {
		if o.over != nil {
			return o.over
		}
		ctx, stop := context.WithTimeout(ctx, w.options.StepTimeout)
		defer stop()
		return w.step(ctx, o.id)
	})
	ended := result.Err
	if ended != nil && !result.Next.Retry {
		w.end(ctx, &result)
	}
	result.Duration = time.Since(begin)
	result.Repeated = result.Err != nil && o.failed == failed
	w.report(result)

	w.mu.Lock()
	defer w.mu.Unlock()
	w.running--
	if ended == nil || result.Over {
		w.queue.done(o)
	} else {
		w.queue.put(o, ended, result.Next, failed)
	}
	w.tell()
}

// end calls over with the error that ended an order.
func (w *Worker) end(ctx context.Context, result *Result) {
	ctx, stop := context.WithTimeout(ctx, w.options.StepTimeout)
	defer stop()
	err := safely.Call[lending.PanicError](func() error { return w.over(ctx, result.Order, result.Err) })
	result.Over = err == nil
	if err != nil {
		result.Err = errors.Join(result.Err, fmt.Errorf("lending/orders: over failed; the next pass calls it again: %w", err))
	}
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
