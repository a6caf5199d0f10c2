package orders

import (
	"cmp"
	"container/heap"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/backoff"
)

// The waits after an error without a wait of its own.
const (
	firstWait = time.Second
	longest   = 5 * time.Minute
)

// order is an order with a waiting or running step, or after an error without a retry.
type order struct {
	id       string
	place    int       // in the heap; away outside
	due      time.Time // zero: before all others
	earliest time.Time // an event makes the order due no earlier
	tie      uint64    // random, for orders due at the same time
	running  bool
	hinted   bool // while running: the step may have read too early
	acted    bool // while running: by a person
	seen     int  // the last pass with the order open, or with a hint

	failed   failure // of the last step
	failures int     // back-offs in a row at the same place
	over     error   // of the last step, without a retry
	pass     int     // during which the last step ended
}

// failure is the error of a step, as far as it decides when the next step runs.
type failure struct {
	route, key string // of the call that failed
	kind       string // what follows: see [lending.Next.String]
}

// The kinds of failures that [lending.Next.String] does not tell.
const (
	isBusy      = "busy"
	isStillOpen = "still open"
)

func failureOf(err error, next lending.Next) failure {
	next.After = 0 // it differs from call to call
	f := failure{kind: next.String()}
	switch {
	case errors.Is(err, ErrBusy):
		return failure{kind: isBusy}
	case errors.Is(err, errStillOpen):
		f.kind = isStillOpen
	}
	if call, ok := errors.AsType[*lending.Error](err); ok {
		f.route, f.key = call.Method+" "+call.Route, call.IdempotencyKey
	}
	return f
}

const away = -1

// queue has the orders by the due time of their step. The worker holds its lock during the methods.
type queue struct {
	orders map[string]*order
	due    byDue
	pass   int             // number of the last pass
	ended  map[string]bool // orders with a step that ended without error since the last pass began
}

// first returns the first due order, nil if none waits.
func (q *queue) first() *order {
	if len(q.due) == 0 {
		return nil
	}
	return q.due[0]
}

// take takes an order out for its step.
func (q *queue) take(o *order) {
	heap.Remove(&q.due, o.place)
	o.running, o.hinted, o.acted = true, false, false
}

// hint makes an order due at once. The hint of a person ends the wait for a person, and calls the
// step after an error without a retry. No hint shortens the wait of the service or of the log.
func (q *queue) hint(id string, byPerson bool) {
	o := q.orders[id]
	switch {
	case o == nil:
		q.add(id, time.Time{})
		return
	case o.running:
		o.hinted, o.acted = true, o.acted || byPerson
	case byPerson && o.waitsForPerson():
		o.over = nil
		q.wake(o, time.Time{})
	case o.place != away:
		if o.due = o.earliest; o.due.Before(time.Now()) {
			o.due = time.Time{}
		}
		heap.Fix(&q.due, o.place)
	}
	o.seen = q.pass
}

func (q *queue) add(id string, due time.Time) {
	o := &order{id: id, due: due, seen: q.pass, tie: rand.Uint64()}
	q.orders[id] = o
	heap.Push(&q.due, o)
}

// wake makes an order due that waits or is over.
func (q *queue) wake(o *order, due time.Time) {
	o.due, o.earliest = due, time.Time{}
	if o.place == away {
		heap.Push(&q.due, o)
	} else {
		heap.Fix(&q.due, o.place)
	}
}

// done puts an order back after a step without an error, if a hint came meanwhile. The others
// wait for the next pass or hint.
func (q *queue) done(o *order) {
	q.ended[o.id] = true
	delete(q.orders, o.id)
	if o.hinted {
		q.add(o.id, time.Time{})
	}
}

// put puts an order back after a failed step.
func (q *queue) put(o *order, err error, next lending.Next, f failure) {
	o.running, o.pass = false, q.pass
	if f != o.failed {
		o.failed, o.failures = f, 0
	}
	switch {
	case next.Retry:
		q.retry(o, next.After)
	case o.over == nil:
		o.over = err
	}
	if o.acted && o.waitsForPerson() {
		o.over = nil
		q.wake(o, time.Time{})
	}
}

// retry has an order wait: as the error says, or with a back-off until a hint.
func (q *queue) retry(o *order, after time.Duration) {
	now := time.Now()
	o.earliest = now.Add(cmp.Or(after, firstWait))
	o.due = o.earliest
	if after == 0 {
		o.failures++
		if !o.hinted {
			o.due = now.Add(max(firstWait, backoff.After(o.failures, firstWait, longest)))
		}
	}
	heap.Push(&q.due, o)
}

// waitsForPerson reports whether an order waits for a person, or has failed without a retry.
func (o *order) waitsForPerson() bool {
	return !o.running && (o.place == away || strings.HasPrefix(o.failed.kind, "person"))
}

// beginPass precedes the listing of the open orders. The list may lack orders hinted from now
// on, and may have orders that end from now on.
func (q *queue) beginPass() {
	q.pass++
	clear(q.ended)
}

// endPass adds the open orders, wakes the orders that wait for a person or failed without a retry, and
// forgets the orders that are no longer open.
func (q *queue) endPass(open []string) {
	now := time.Now()
	for _, id := range open {
		o := q.orders[id]
		switch {
		case o == nil && q.ended[id]: // the list may be older than the end of the step
			continue
		case o == nil:
			q.add(id, now)
			continue
		case o.waitsForPerson() && o.pass < q.pass:
			q.wake(o, now)
		}
		o.seen = q.pass
	}
	for id, o := range q.orders {
		if o.seen == q.pass || o.running {
			continue
		}
		if o.place != away {
			heap.Remove(&q.due, o.place)
		}
		delete(q.orders, id)
	}
}

// byDue is a heap.
type byDue []*order

func (h byDue) Len() int { return len(h) }

func (h byDue) Less(i, j int) bool {
	a, b := h[i], h[j]
	return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.tie, b.tie)) < 0
}

func (h byDue) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

// Push is a method of [heap.Interface].
func (h *byDue) Push(x any) {
	o := x.(*order) //nolint:forcetypeassert // the heap holds nothing else
	o.place = len(*h)
	*h = append(*h, o)
}

// Pop is a method of [heap.Interface].
func (h *byDue) Pop() any {
	last := len(*h) - 1
	o := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	o.place = away
	return o
}
