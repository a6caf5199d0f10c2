package lendingpostgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/backoff"
	"github.com/lendingapi/lending-go/internal/safely"
	"github.com/lendingapi/lending-go/webhook"
)

// aloneAfter is how many tries have not ended of what is acted on alone from then on: it
// may have ended the process each time.
const aloneAfter = 2

// batchWait is how long a worker that is done waits for others, while there is a backlog and most
// are not: so that one statement takes for several.
const batchWait = 5 * time.Millisecond

// claimer is what the workers of this process share. While one of them waits a goroutine
// has events taken for all, so that few statements are sent.
type claimer struct {
	mu        sync.Mutex
	waiting   []*waiter            // oldest first
	free      time.Time            // since when somebody waits
	serving   bool                 // the goroutine is there
	changed   chan struct{}        // has one when look or what is below has changed
	look      time.Time            // when to look for events again
	more      bool                 // there are more, as far as is known: it need not be awaited
	looks     int                  // statements under way that take events
	resting   chan struct{}        // closed when there are none
	asked     int                  // for how many workers
	deciding  bool                 // whether something may be alone
	forget    time.Time            // when to delete keys again
	listening int                  // connections that tell of what was put
	lost      []int64              // claims of which nobody knows whether they were committed
	running   map[string]time.Time // until when the entries are this process's, by ID
	exclusive bool                 // what is running is alone
	wanted    bool                 // an event waits to be alone
}

// waiter is a Take that waits.
type waiter struct {
	got     chan result // has room for one
	relaxed bool        // see takeEvents
}

type result struct {
	entry *webhook.InboxEntry
	err   error
}

func newClaimer() *claimer {
	return &claimer{changed: make(chan struct{}, 1), running: map[string]time.Time{}}
}

// Take implements [webhook.Inbox].
func (b *Inbox) Take(ctx context.Context) (*webhook.InboxEntry, error) { return b.take(ctx, false) }

func (b *Inbox) take(ctx context.Context, relaxed bool) (*webhook.InboxEntry, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w := &waiter{make(chan result, 1), relaxed}
	if b.claimer().join(w) {
		go b.serve(context.WithoutCancel(ctx))
	}
	select {
	case got := <-w.got:
		return got.entry, got.err
	case <-ctx.Done():
	}
	waited := b.claimer().leave(w)
	b.claimer().rest()
	if waited {
		return nil, ctx.Err()
	}
	got := <-w.got // at the same moment
	return got.entry, got.err
}

// serve looks for events for those who wait until nobody does.
func (b *Inbox) serve(ctx context.Context) {
	for b.claimer().anybody() {
		l, wait := b.claimer().plan(b.options.Poll)
		if l.n > 0 {
			go func() {
				b.claimer().looked(l, safely.Call[lending.PanicError](func() error { return b.look(ctx, l) }))
			}()
			continue
		}
		_ = backoff.Wait(ctx, wait, b.claimer().changed)
	}
}

// look is one look for events.
type look struct {
	n       int  // so many at most
	alone   bool // nothing is running here
	relaxed bool // see takeEvents
}

func (b *Inbox) look(ctx context.Context, l look) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	began := time.Now()
	rows, seen, err := b.claim(ctx, l)
	for i := range rows {
		entry, refused := rows[i].entry()
		if refused != nil { // it would be each time
			refused = errors.Join(fmt.Errorf("lendingpostgres: an entry is now a dead letter: %w", refused), b.DeadLetter(ctx, entry))
		}
		if !b.claimer().give(entry, refused, rows[i].unended >= aloneAfter) && refused == nil {
			_, _ = b.exec(ctx, "UPDATE {inbox} SET claim = NULL"+ofClaim, rows[i].id, b.name, rows[i].claim)
		}
	}
	if err == nil && b.claimer().isTime(min(b.options.Keep/4, time.Minute)) {
		err = b.forget(ctx)
	}
	if err == nil && b.claimer().saw(l, seen, len(rows)) {
		err = b.outlook(ctx, began)
	}
	return err
}

func (c *claimer) join(w *waiter) (first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) == 0 {
		c.free = time.Now()
	}
	c.waiting = append(c.waiting, w)
	first, c.serving = !c.serving, true
	c.change()
	return first
}

// leave reports whether w was still waiting.
func (c *claimer) leave(w *waiter) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := slices.Index(c.waiting, w)
	if at < 0 {
		return false
	}
	c.waiting = slices.Delete(c.waiting, at, at+1)
	c.change()
	return true
}

// rest waits a moment for the looks under way: what they take for nobody is given back
// before the caller closes the pool, or ends.
func (c *claimer) rest() {
	c.mu.Lock()
	resting := c.resting
	c.mu.Unlock()
	if resting == nil {
		return
	}
	select {
	case <-resting:
	case <-time.After(time.Second):
	}
}

// anybody reports whether somebody waits; if not, whoever has asked is to end.
func (c *claimer) anybody() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serving = len(c.waiting) > 0
	return c.serving
}

// change tells the goroutine. The caller holds the lock.
func (c *claimer) change() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// lose notes claims of which nobody knows whether they were committed.
func (c *claimer) lose(claims ...int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost = append(c.lost, claims...)
	c.look = time.Time{}
}

func (c *claimer) found() []int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	lost := c.lost
	c.lost = nil
	return lost
}

// isTime reports whether to delete keys, and if so has nobody else do it.
func (c *claimer) isTime(interval time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if now.Before(c.forget) {
		return false
	}
	c.forget = now.Add(interval)
	return true
}

func (c *claimer) forgetMore() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget = time.Time{}
}

// plan returns what to look for, or how long to wait.
func (c *claimer) plan(poll time.Duration) (l look, wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	ends := now.Add(poll)
	for id, until := range c.running {
		switch {
		case now.After(until):
			delete(c.running, id) // it is another's now
		case until.Before(ends):
			ends = until
		}
	}
	c.drained()
	l.relaxed = !slices.ContainsFunc(c.waiting, func(w *waiter) bool { return !w.relaxed })
	wait = c.look.Sub(now)
	switch {
	case c.exclusive || c.wanted:
		return look{}, time.Until(ends) + time.Millisecond
	case c.deciding || c.asked+1<<c.looks > len(c.waiting):
		return look{}, poll
	case !c.more && wait > 0:
		return look{}, wait
	case c.more && len(c.waiting) < len(c.running) && now.Sub(c.free) < batchWait:
		return look{}, batchWait - now.Sub(c.free)
	case !c.more && c.listening > 0:
		poll *= 15
	}
	if !c.more {
		c.look = now.Add(poll)
	}
	l.n = atOnce(len(c.waiting) - c.asked)
	l.alone = len(c.running) == 0 && c.looks == 0
	c.deciding = l.alone
	c.asked += l.n
	if c.looks == 0 {
		c.resting = make(chan struct{})
	}
	c.looks++
	return l, 0
}

// saw notes how many events a look has seen, and taken. If there may be no more it says so.
func (c *claimer) saw(l look, seen, taken int) (all bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted = c.wanted || seen > taken
	c.more = seen == l.n
	return !c.wanted && !c.more
}

// looked notes the end of a look. If it has failed it has for all who wait.
func (c *claimer) looked(l look, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.looks--; c.looks == 0 {
		close(c.resting)
	}
	c.asked -= l.n
	c.deciding = c.deciding && !l.alone
	if err != nil {
		for _, w := range c.waiting {
			w.got <- result{err: err}
		}
		c.waiting, c.look = nil, time.Time{}
	}
	c.drained()
	c.change()
}

// lookIn has the goroutine look for events in a while, if it would not earlier.
func (c *claimer) lookIn(wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := time.Now().Add(wait); at.Before(c.look) {
		c.look = at
		c.change()
	}
}

// give gives an entry, or why there is none, to the first who waits, and reports whether
// anybody does.
func (c *claimer) give(entry *webhook.InboxEntry, refused error, alone bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) == 0 {
		return false
	}
	if refused != nil {
		entry = nil
	} else {
		c.running[entry.ID] = entry.Until
		c.exclusive = c.exclusive || alone
	}
	c.waiting[0].got <- result{entry, refused}
	c.waiting = c.waiting[1:]
	return true
}

// ended notes that an entry is not running here any more, unless err says that the
// database does not know that, and returns err.
func (c *claimer) ended(entry *webhook.InboxEntry, err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, running := c.running[entry.ID]; running && err == nil {
		delete(c.running, entry.ID)
		c.drained()
	}
	return err
}

// drained lets what waits for the end of all that is running go on. The caller holds
// the lock.
func (c *claimer) drained() {
	if (c.exclusive || c.wanted) && c.looks == 0 && len(c.running) == 0 {
		c.exclusive, c.wanted, c.look = false, false, time.Time{}
		c.change()
	}
}
