// Package claimer lets the workers of a process take turns at claiming the events of an inbox: an
// idle process sends few requests, whatever the number of its workers, and during a backlog some
// workers ask at the same time. The package also has the rules of calls about dead letters.
package claimer

import (
	"context"
	"sync"
	"time"

	"github.com/lendingapi/lending-go/internal/backoff"
)

const (
	atOnce   = 4                // requests in progress during a backlog
	timeout  = 10 * time.Second // of a request
	farewell = 2 * time.Second  // for a request in progress when its worker leaves: it may have claimed an event
)

// Source claims an event of type E in a store. A relaxed claim need not survive the server. With an
// error, Next of Seen is 0.
type Source[E any] func(ctx context.Context, relaxed bool) (Seen[E], error)

// Seen is the result of a request.
type Seen[E any] struct {
	Entry E
	Found bool          // Entry is a claimed event
	Next  time.Duration // time until the next due event; negative if unknown
}

// Claimer serves the workers of a process.
type Claimer[E any] struct {
	source  Source[E]
	poll    time.Duration // longest time between two requests
	turns   chan struct{} // of the workers that ask, or wait until it is time to ask
	changed chan struct{} // signals an earlier next

	mu   sync.Mutex
	next time.Time // when to ask again
	more bool      // a backlog: the last request found an event
}

// New returns the claimer of a source, with at most poll between two requests.
func New[E any](source Source[E], poll time.Duration) *Claimer[E] {
	return &Claimer[E]{source: source, poll: poll, turns: make(chan struct{}, atOnce), changed: make(chan struct{}, 1)}
}

// Take waits for an event. An event that was claimed when ctx ended is returned.
func (c *Claimer[E]) Take(ctx context.Context, relaxed bool) (none E, err error) {
	select {
	case c.turns <- struct{}{}:
		defer func() { <-c.turns }()
	case <-ctx.Done():
	}
	for ctx.Err() == nil {
		if wait := c.wait(); wait > 0 {
			_ = backoff.Wait(ctx, wait, c.changed)
			continue
		}
		seen, err := c.claim(ctx, relaxed)
		if seen.Found || err != nil && ctx.Err() == nil {
			return seen.Entry, err
		}
	}
	return none, ctx.Err()
}

// LookIn moves the next request forward to a time in a while.
func (c *Claimer[E]) LookIn(wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lookAt(time.Now().Add(wait))
}

// lookAt moves the next request forward. The caller holds the lock.
func (c *Claimer[E]) lookAt(at time.Time) {
	if at.Before(c.next) {
		c.next = at
		select {
		case c.changed <- struct{}{}: // ends the sleep of a worker
		default:
		}
	}
}

// wait returns the time until the next request. If it is due, events that come from now on need
// another.
func (c *Claimer[E]) wait() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	wait := max(0, c.next.Sub(now))
	if wait == 0 {
		c.next = now.Add(c.poll)
	}
	if c.more {
		return 0
	}
	return wait
}

// claim asks the source. The end of ctx does not end the request at once, because nobody would know
// of its claim. After a failure or a panic, the next request is due at once.
func (c *Claimer[E]) claim(ctx context.Context, relaxed bool) (seen Seen[E], err error) {
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(farewell, cancel) })()
	next := time.Duration(0)
	defer func() { c.note(seen.Found, next) }()
	seen, err = c.source(asking, relaxed)
	next = seen.Next // 0 after a failure
	return seen, err
}

func (c *Claimer[E]) note(found bool, next time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.more = found; next >= 0 {
		c.lookAt(time.Now().Add(next))
	}
}

// SetDefault sets a setting of an inbox or its worker to the usual value, unless it is positive.
func SetDefault[T ~int | ~int64](setting *T, usual T) {
	if *setting <= 0 {
		*setting = usual
	}
}
