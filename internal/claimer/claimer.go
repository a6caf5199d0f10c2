// Package claimer has the workers of a process share the claims of an inbox. While one of them waits,
// a goroutine claims events for all of them, with few requests. An event that may have ended its
// process is given to a worker while no other event is running, and no other beside it.
package claimer

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/safely"
)

// AloneAfter is how many tries of an event have not ended if the event is acted on alone from then
// on: each of them may have ended its process.
const AloneAfter = 2

const (
	maxBatch = 32                   // events in one request
	gather   = 5 * time.Millisecond // for workers that are about to be done, while there is a backlog
	timeout  = 10 * time.Second     // of a request
	farewell = 2 * time.Second      // for requests under way, when a worker leaves
)

// Source claims events of type E in a store.
type Source[E any] interface {
	// Claim claims events that are due, at most ask.N, and calls give with each. At the first event that
	// must be alone it stops, unless ask.Alone and that is the first.
	Claim(ctx context.Context, ask Ask, give func(Claim[E])) (Outlook, error)
	// GiveBack ends a claim as if it had not been made: nobody waits for the event.
	GiveBack(ctx context.Context, entry E)
}

// Ask is a request for events.
type Ask struct {
	N       int           // a power of two
	Alone   bool          // no event is running in this process, and no other request is under way
	Relaxed bool          // every worker that waits has called Take so
	Wait    time.Duration // how long a source that blocks may wait for an event; 0 if it is time to look
}

// Claim is a claimed event, or the error of what is none.
type Claim[E any] struct {
	Entry E
	ID    string
	Until time.Time // when the claim ends; zero if it does not end
	Alone bool      // must be
	Err   error
}

// Outlook is what a request has seen beside the events that it has claimed.
type Outlook struct {
	More    bool          // there may be more that are due
	Suspect bool          // the next must be alone
	Next    time.Duration // when the next is due, if that is before Poll
}

// Options say how a [Claimer] asks.
type Options struct {
	Poll   time.Duration // how long after a request that has found nothing the next one begins
	Blocks bool          // whether the source waits for new events itself, for Ask.Wait
}

// Claimer is what the workers of a process share.
type Claimer[E any] struct {
	source  Source[E]
	options Options
	changed chan struct{} // has one when the goroutine has to plan anew

	mu       sync.Mutex
	waiting  []*waiter[E] // oldest first
	since    time.Time    // when the first of them came
	serving  bool         // the goroutine is there
	requests requests
	running  running
	next     time.Time // when to ask again
	more     bool      // at once, as far as is known
}

// waiter is a Take that waits.
type waiter[E any] struct {
	got     chan Claim[E] // has room for one
	relaxed bool
}

// requests are those under way.
type requests struct {
	n, events int           // so many, for so many events
	alone     bool          // whether an event may be alone: nothing else is asked
	ended     chan struct{} // closed when there are none
}

// running are the events that this process has claimed.
type running struct {
	until  map[string]time.Time // by ID
	alone  bool                 // nothing may run beside it
	wanted bool                 // an event waits until nothing is running
}

// New returns the claimer of a source.
func New[E any](source Source[E], options Options) *Claimer[E] {
	return &Claimer[E]{
		source: source, options: options, changed: make(chan struct{}, 1),
		running: running{until: map[string]time.Time{}},
	}
}

// Take waits for an event. Ask.Relaxed is set while all who wait are relaxed.
func (c *Claimer[E]) Take(ctx context.Context, relaxed bool) (entry E, err error) {
	if err := ctx.Err(); err != nil {
		return entry, err
	}
	w := &waiter[E]{make(chan Claim[E], 1), relaxed}
	if c.join(w) {
		go c.serve(context.WithoutCancel(ctx))
	}
	select {
	case got := <-w.got:
		return got.Entry, got.Err
	case <-ctx.Done():
	}
	if c.leave(w) {
		return entry, ctx.Err()
	}
	got := <-w.got // at the same moment
	return got.Entry, got.Err
}

// Ended notes that an event is not running here any more, unless err says that the store does not
// know that, and returns err.
func (c *Claimer[E]) Ended(id string, err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, running := c.running.until[id]; running && err == nil {
		delete(c.running.until, id)
		c.drained()
	}
	return err
}

// LookIn has the next request begin in a while, if it would not earlier.
func (c *Claimer[E]) LookIn(wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lookAt(time.Now().Add(wait))
}

// SetPoll changes Options.Poll, and has the next request begin at once.
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

// change tells the goroutine.
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

// leave reports whether w was still waiting. It waits a moment for requests that may claim events for
// nobody: these are given back before the caller closes the store.
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

// plan returns what to ask for, or how long to wait.
func (c *Claimer[E]) plan() (ask Ask, wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, poll := time.Now(), c.options.Poll
	ends := c.expire(now)
	wait = max(0, c.next.Sub(now))
	switch free := len(c.waiting) - c.requests.events; {
	case c.running.alone || c.running.wanted:
		return Ask{}, min(poll, ends.Sub(now)+time.Millisecond)
	case c.requests.alone || free < 1<<c.requests.n: // the more requests are under way, the larger the next
		return Ask{}, poll
	case !c.more && c.options.Blocks && c.requests.n > 0:
		return Ask{}, poll
	case !c.more && !c.options.Blocks && wait > 0:
		return Ask{}, wait
	case c.more && len(c.waiting) < len(c.running.until) && now.Sub(c.since) < gather:
		return Ask{}, gather - now.Sub(c.since)
	default:
		return c.ask(now, free, wait), 0
	}
}

// ask notes the request that it returns. The caller holds the lock.
func (c *Claimer[E]) ask(now time.Time, free int, wait time.Duration) Ask {
	ask := Ask{N: 1, Alone: len(c.running.until) == 0 && c.requests.n == 0}
	for ask.N < maxBatch && 2*ask.N <= free {
		ask.N *= 2
	}
	ask.Relaxed = !slices.ContainsFunc(c.waiting, func(w *waiter[E]) bool { return !w.relaxed })
	if c.options.Blocks {
		ask.Wait = wait
	}
	if ask.Wait == 0 && (!c.more || c.options.Blocks) {
		c.next = now.Add(c.options.Poll)
	}
	if c.requests.n == 0 {
		c.requests.ended = make(chan struct{})
	}
	c.requests.n++
	c.requests.events += ask.N
	c.requests.alone = ask.Alone
	return ask
}

// expire forgets the claims that have ended, and returns when the next one does. The caller holds the
// lock.
func (c *Claimer[E]) expire(now time.Time) (next time.Time) {
	next = now.Add(time.Hour)
	for id, until := range c.running.until {
		switch {
		case until.IsZero():
		case now.After(until):
			delete(c.running.until, id) // it is another's now
		case until.Before(next):
			next = until
		}
	}
	c.drained()
	return next
}

// request asks the source. If that fails, it has failed for all who wait.
func (c *Claimer[E]) request(ctx context.Context, ask Ask) {
	var seen Outlook
	var returned bool
	err := safely.Call[lending.PanicError](func() (err error) {
		ctx, cancel := context.WithTimeout(ctx, timeout+ask.Wait)
		defer cancel()
		seen, err = c.source.Claim(ctx, ask, func(claim Claim[E]) {
			if !c.give(claim) && claim.Err == nil {
				c.source.GiveBack(ctx, claim.Entry)
				returned = true
			}
		})
		return err
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests.n--
	c.requests.events -= ask.N
	c.requests.alone = c.requests.alone && !ask.Alone
	if c.requests.n == 0 {
		close(c.requests.ended)
	}
	c.more = seen.More
	c.running.wanted = c.running.wanted || seen.Suspect
	switch {
	case err != nil:
		for _, w := range c.waiting {
			w.got <- Claim[E]{Err: err}
		}
		c.waiting, c.next = nil, time.Time{}
	case returned:
		c.next = time.Time{}
	case seen.Next > 0:
		c.lookAt(time.Now().Add(seen.Next))
	}
	c.drained()
	c.change()
}

// give gives an event, or why there is none, to the first who waits, and reports whether anybody
// does.
func (c *Claimer[E]) give(claim Claim[E]) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) == 0 {
		return false
	}
	if claim.Err == nil {
		c.running.until[claim.ID] = claim.Until
		c.running.alone = c.running.alone || claim.Alone
	}
	c.waiting[0].got <- claim
	c.waiting = c.waiting[1:]
	return true
}

// drained lets what waits for the end of all that is running go on. The caller holds the lock.
func (c *Claimer[E]) drained() {
	if (c.running.alone || c.running.wanted) && c.requests.n == 0 && len(c.running.until) == 0 {
		c.running.alone, c.running.wanted, c.next = false, false, time.Time{}
		c.change()
	}
}
