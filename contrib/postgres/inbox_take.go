package lendingpostgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/safely"
	"github.com/lendingapi/lending-go/webhook"
)

// aloneAfter is how many tries have not ended of what is acted on alone from then on: it
// may have ended the process each time.
const aloneAfter = 2

// together is how long a worker that is done waits for others, while there is a backlog and most
// are not: so that one statement takes for several.
const together = 5 * time.Millisecond

// taking is what the workers of this process share. While one of them waits a goroutine
// has events taken for all, so that few statements are sent.
type taking struct {
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

func newTaking() *taking {
	return &taking{changed: make(chan struct{}, 1), running: map[string]time.Time{}}
}

// Take implements [webhook.Inbox].
func (b *Inbox) Take(ctx context.Context) (*webhook.InboxEntry, error) { return b.take(ctx, false) }

func (b *Inbox) take(ctx context.Context, relaxed bool) (*webhook.InboxEntry, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w := &waiter{make(chan result, 1), relaxed}
	if b.taking().join(w) {
		go b.serve(context.WithoutCancel(ctx))
	}
	select {
	case got := <-w.got:
		return got.entry, got.err
	case <-ctx.Done():
	}
	waited := b.taking().leave(w)
	b.taking().rest()
	if waited {
		return nil, ctx.Err()
	}
	got := <-w.got // at the same moment
	return got.entry, got.err
}

// serve looks for events for those who wait until nobody does.
func (b *Inbox) serve(ctx context.Context) {
	for b.taking().anybody() {
		l, wait := b.taking().plan(b.options.Poll)
		if l.n > 0 {
			go func() {
				b.taking().looked(l, safely.Call[lending.PanicError](func() error { return b.look(ctx, l) }))
			}()
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-b.taking().changed:
		case <-timer.C:
		}
		timer.Stop()
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
			refused = errors.Join(fmt.Errorf("lending: postgres: an entry is now a dead letter: %w", refused), b.DeadLetter(ctx, entry))
		}
		if !b.taking().give(entry, refused, rows[i].unended >= aloneAfter) && refused == nil {
			_, _ = b.exec(ctx, "UPDATE {inbox} SET claim = NULL"+ofClaim, rows[i].id, b.name, rows[i].claim)
		}
	}
	if err == nil && b.taking().isTime(min(b.options.Keep/4, time.Minute)) {
		err = b.forget(ctx)
	}
	if err == nil && b.taking().saw(l, seen, len(rows)) {
		err = b.outlook(ctx, began)
	}
	return err
}

func (t *taking) join(w *waiter) (first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) == 0 {
		t.free = time.Now()
	}
	t.waiting = append(t.waiting, w)
	first, t.serving = !t.serving, true
	t.change()
	return first
}

// leave reports whether w was still waiting.
func (t *taking) leave(w *waiter) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := slices.Index(t.waiting, w)
	if at < 0 {
		return false
	}
	t.waiting = slices.Delete(t.waiting, at, at+1)
	t.change()
	return true
}

// rest waits a moment for the looks under way: what they take for nobody is given back
// before the caller closes the pool, or ends.
func (t *taking) rest() {
	t.mu.Lock()
	resting := t.resting
	t.mu.Unlock()
	if resting == nil {
		return
	}
	select {
	case <-resting:
	case <-time.After(time.Second):
	}
}

// anybody reports whether somebody waits; if not, whoever has asked is to end.
func (t *taking) anybody() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.serving = len(t.waiting) > 0
	return t.serving
}

// change tells the goroutine. The caller holds the lock.
func (t *taking) change() {
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

// lose notes claims of which nobody knows whether they were committed.
func (t *taking) lose(claims ...int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lost = append(t.lost, claims...)
	t.look = time.Time{}
}

func (t *taking) found() []int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	lost := t.lost
	t.lost = nil
	return lost
}

// isTime reports whether to delete keys, and if so has nobody else do it.
func (t *taking) isTime(interval time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if now.Before(t.forget) {
		return false
	}
	t.forget = now.Add(interval)
	return true
}

func (t *taking) forgetMore() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forget = time.Time{}
}

// plan returns what to look for, or how long to wait.
func (t *taking) plan(poll time.Duration) (l look, wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	ends := now.Add(poll)
	for id, until := range t.running {
		switch {
		case now.After(until):
			delete(t.running, id) // it is another's now
		case until.Before(ends):
			ends = until
		}
	}
	t.drained()
	l.relaxed = !slices.ContainsFunc(t.waiting, func(w *waiter) bool { return !w.relaxed })
	wait = t.look.Sub(now)
	switch {
	case t.exclusive || t.wanted:
		return look{}, time.Until(ends) + time.Millisecond
	case t.deciding || t.asked+1<<t.looks > len(t.waiting):
		return look{}, poll
	case !t.more && wait > 0:
		return look{}, wait
	case t.more && len(t.waiting) < len(t.running) && now.Sub(t.free) < together:
		return look{}, together - now.Sub(t.free)
	case !t.more && t.listening > 0:
		poll *= 15
	}
	if !t.more {
		t.look = now.Add(poll)
	}
	l.n = atOnce(len(t.waiting) - t.asked)
	l.alone = len(t.running) == 0 && t.looks == 0
	t.deciding = l.alone
	t.asked += l.n
	if t.looks == 0 {
		t.resting = make(chan struct{})
	}
	t.looks++
	return l, 0
}

// saw notes how many events a look has seen, and taken. If there may be no more it says so.
func (t *taking) saw(l look, seen, taken int) (all bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wanted = t.wanted || seen > taken
	t.more = seen == l.n
	return !t.wanted && !t.more
}

// looked notes the end of a look. If it has failed it has for all who wait.
func (t *taking) looked(l look, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.looks--; t.looks == 0 {
		close(t.resting)
	}
	t.asked -= l.n
	t.deciding = t.deciding && !l.alone
	if err != nil {
		for _, w := range t.waiting {
			w.got <- result{err: err}
		}
		t.waiting, t.look = nil, time.Time{}
	}
	t.drained()
	t.change()
}

// lookIn has the goroutine look for events in a while, if it would not earlier.
func (t *taking) lookIn(wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at := time.Now().Add(wait); at.Before(t.look) {
		t.look = at
		t.change()
	}
}

// give gives an entry, or why there is none, to the first who waits, and reports whether
// anybody does.
func (t *taking) give(entry *webhook.InboxEntry, refused error, alone bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) == 0 {
		return false
	}
	if refused != nil {
		entry = nil
	} else {
		t.running[entry.ID] = entry.Until
		t.exclusive = t.exclusive || alone
	}
	t.waiting[0].got <- result{entry, refused}
	t.waiting = t.waiting[1:]
	return true
}

// settled notes that an entry is not running here any more, unless err says that the
// database does not know that, and returns err.
func (t *taking) settled(entry *webhook.InboxEntry, err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, running := t.running[entry.ID]; running && err == nil {
		delete(t.running, entry.ID)
		t.drained()
	}
	return err
}

// drained lets what waits for the end of all that is running go on. The caller holds
// the lock.
func (t *taking) drained() {
	if (t.exclusive || t.wanted) && t.looks == 0 && len(t.running) == 0 {
		t.exclusive, t.wanted, t.look = false, false, time.Time{}
		t.change()
	}
}
