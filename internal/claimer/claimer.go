// Package claimer shares the claims of an inbox among the workers of a process. While a worker
// waits, a goroutine claims events for all workers, with few requests. The package also has the
// rules of calls about dead letters.
package claimer

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/safely"
)

// MaxBatch is the largest number of events in a request.
const MaxBatch = 32

const (
	gather   = 5 * time.Millisecond // for workers about to finish, during a backlog
	timeout  = 10 * time.Second     // of a request
	farewell = 2 * time.Second      // for requests in progress, when a worker leaves
)

// Source claims events of type E in a store.
type Source[E any] interface {
	// Claim claims due events, at most ask.N, and calls give with each event or its error.
	Claim(ctx context.Context, ask Ask, give func(entry E, err error)) (Outlook, error)
	// GiveBack undoes a claim: nobody waits for the event.
	GiveBack(ctx context.Context, entry E)
}

// Ask is a request for events.
type Ask struct {
	N       int           // at most MaxBatch
	Relaxed bool          // every waiting worker has called Take with relaxed
	Wait    time.Duration // wait of a blocking source for an event; 0 for none
}

// Outlook is the view of a request beyond its claimed events.
type Outlook struct {
	More bool          // more events may be due
	Next time.Duration // time until the next due event, if before Poll; 0 if unknown
}

// Options are the settings of a [Claimer].
type Options struct {
	Poll   time.Duration // time between an empty request and the next request
	Blocks bool          // whether the source waits for new events itself, for Ask.Wait
}

// Claimer serves the workers of a process.
type Claimer[E any] struct {
	source  Source[E]
	options Options
	changed chan struct{} // signals a change of the plan

	mu       sync.Mutex
	waiting  []*waiter[E] // oldest first
	since    time.Time    // arrival of the first, or the last request
	serving  bool         // the goroutine runs
	requests requests
	running  int       // about the number of events that workers handle
	next     time.Time // when to ask again
	more     bool      // ask at once
}

// waiter is a waiting Take.
type waiter[E any] struct {
	got     chan claim[E] // with room for a claim
	relaxed bool
}

// claim is a claimed event, or an error.
type claim[E any] struct {
	entry E
	err   error
}

// requests are the requests in progress.
type requests struct {
	n, events int           // number of requests, and of their events
	ended     chan struct{} // closed without requests
}

// New returns the claimer of a source.
func New[E any](source Source[E], options Options) *Claimer[E] {
	return &Claimer[E]{source: source, options: options, changed: make(chan struct{}, 1)}
}

// Take waits for an event. Ask.Relaxed is set while all waiting workers are relaxed.
func (c *Claimer[E]) Take(ctx context.Context, relaxed bool) (entry E, err error) {
	if err := ctx.Err(); err != nil {
		return entry, err
	}
	w := &waiter[E]{make(chan claim[E], 1), relaxed}
	if c.join(w) {
		go c.serve(context.WithoutCancel(ctx))
	}
	select {
	case got := <-w.got:
		return got.entry, got.err
	case <-ctx.Done():
	}
	if c.leave(w) {
		return entry, ctx.Err()
	}
	got := <-w.got // at the same moment
	return got.entry, got.err
}

// Ended notes the end of an event, unless err means that the store does not know about the end.
// It returns err.
func (c *Claimer[E]) Ended(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && c.running > 0 { // an event can end twice
		c.running--
	}
	return err
}

// LookIn moves the next request forward to a time in a while.
func (c *Claimer[E]) LookIn(wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lookAt(time.Now().Add(wait))
}

// SetPoll changes Options.Poll, and begins the next request at once.
func (c *Claimer[E]) SetPoll(poll time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.options.Poll, c.next = poll, time.Time{}
	c.change()
}

// lookAt moves the next request forward. The caller holds the lock.
func (c *Claimer[E]) lookAt(at time.Time) {
	if at.Before(c.next) {
		c.next = at
		c.change()
	}
}

// change wakes the goroutine.
func (c *Claimer[E]) change() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

func (c *Claimer[E]) join(w *waiter[E]) (first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) == 0 {
		c.since = time.Now()
	}
	c.waiting = append(c.waiting, w)
	first, c.serving = !c.serving, true
	c.change()
	return first
}

// leave reports whether w was still waiting. It waits a moment for requests whose events nobody
// wants, so that these are given back before the caller closes the store.
func (c *Claimer[E]) leave(w *waiter[E]) (waited bool) {
	c.mu.Lock()
	at := slices.Index(c.waiting, w)
	if at < 0 {
		c.mu.Unlock()
		return false
	}
	c.waiting = slices.Delete(c.waiting, at, at+1)
	c.change()
	ended, spare := c.requests.ended, c.requests.events > len(c.waiting)
	c.mu.Unlock()
	if spare {
		timer := time.NewTimer(farewell)
		defer timer.Stop()
		select {
		case <-ended:
		case <-timer.C:
		}
	}
	return true
}

// serve asks for events until nobody waits.
func (c *Claimer[E]) serve(ctx context.Context) {
	for c.anybody() {
		ask, wait := c.plan()
		if ask.N > 0 {
			go c.request(ctx, ask)
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-c.changed:
		case <-timer.C:
		}
		timer.Stop()
	}
}

func (c *Claimer[E]) anybody() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serving = len(c.waiting) > 0
	return c.serving
}

// plan returns the next request, or the time to wait.
func (c *Claimer[E]) plan() (ask Ask, wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	free := len(c.waiting) - c.requests.events
	if wait := c.pause(now, free); wait > 0 {
		return Ask{}, wait
	}
	return c.ask(now, free), 0
}

// pause returns the time before the next request, which is for free workers. The caller holds the
// lock.
func (c *Claimer[E]) pause(now time.Time, free int) time.Duration {
	switch {
	case free < 1<<(2*c.requests.n): // the more requests are in progress, the larger the next
		return c.options.Poll
	case c.more && len(c.waiting) < c.running: // workers about to finish share the request
		return gather - now.Sub(c.since)
	case c.more:
		return 0
	case !c.options.Blocks:
		return c.next.Sub(now)
	case c.requests.n > 0: // the source waits for events
		return c.options.Poll
	}
	return 0
}

// ask notes and returns a request. The caller holds the lock.
func (c *Claimer[E]) ask(now time.Time, free int) Ask {
	ask := Ask{N: min(free, MaxBatch)}
	ask.Relaxed = !slices.ContainsFunc(c.waiting, func(w *waiter[E]) bool { return !w.relaxed })
	if c.options.Blocks {
		ask.Wait = max(0, c.next.Sub(now))
	}
	if ask.Wait == 0 && (!c.more || c.options.Blocks) {
		c.next = now.Add(c.options.Poll)
	}
	if c.requests.n == 0 {
		c.requests.ended = make(chan struct{})
	}
	c.since = now // during a backlog, the rest waits for others
	c.requests.n++
	c.requests.events += ask.N
	return ask
}

// request asks the source. An error goes to all waiting workers.
func (c *Claimer[E]) request(ctx context.Context, ask Ask) {
	var seen Outlook
	var returned bool
	err := safely.Call[lending.PanicError](func() (err error) {
		ctx, cancel := context.WithTimeout(ctx, timeout+ask.Wait)
		defer cancel()
		seen, err = c.source.Claim(ctx, ask, func(entry E, err error) {
			if !c.give(claim[E]{entry, err}) && err == nil {
				c.source.GiveBack(ctx, entry)
				returned = true
			}
		})
		return err
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests.n--
	c.requests.events -= ask.N
	if c.requests.n == 0 {
		close(c.requests.ended)
	}
	if c.more = seen.More; !c.more {
		c.running = 0 // only a backlog needs the number; events whose end was not recorded do not stay in it
	}
	switch {
	case err != nil:
		for _, w := range c.waiting {
			w.got <- claim[E]{err: err}
		}
		c.waiting, c.next = nil, time.Time{}
	case returned:
		c.next = time.Time{}
	case seen.Next > 0:
		c.lookAt(time.Now().Add(seen.Next))
	}
	c.change()
}

// give gives an event or an error to the first waiting worker, and reports whether there is any.
func (c *Claimer[E]) give(got claim[E]) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) == 0 {
		return false
	}
	if got.err == nil {
		c.running++
	}
	c.waiting[0].got <- got
	c.waiting = c.waiting[1:]
	return true
}
