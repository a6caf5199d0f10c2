package orders

import (
	"cmp"
	"container/heap"
	"math/rand/v2"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/backoff"
)

// The waits after an error without a wait of its own.
const (
	firstWait = time.Second
	longest   = 5 * time.Minute
)

// order is an order with a waiting or running step, or a stopped order.
type order struct {
	id       string
	place    int       // in the heap; away outside
	due      time.Time // zero: before all others
	earliest time.Time // a hint makes the order due no earlier
	tie      uint64    // random, for orders due at the same time
	failures int       // steps in a row
	running  bool
	hinted   bool // while running: the step may have read too early
	seen     int  // the last pass with the order open, or with a hint
}

const away = -1

// queue has the orders by the due time of their step. The worker holds its lock during the methods.
type queue struct {
	orders map[string]*order
	due    byDue
	pass   int // number of the last pass
}

func newQueue() queue { return queue{orders: map[string]*order{}} }

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
	o.running, o.hinted = true, false
}

// hint makes an order due at once, unless the error of its last step demands a wait or stopped
// the order.
func (q *queue) hint(id string) {
	o := q.orders[id]
	switch {
	case o == nil:
		q.add(id, time.Time{})
		return
	case o.running:
		o.hinted = true
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

// put puts an order back after its step.
func (q *queue) put(o *order, err error, next lending.Next) {
	o.running = false
	switch {
	case err == nil && !o.hinted: // until the next pass or hint
		delete(q.orders, o.id)
		return
	case err == nil:
		o.failures, o.due, o.earliest = 0, time.Time{}, time.Time{}
	case !next.Retry: // until a pass finds the order closed
		return
	default:
		o.failures++
		now := time.Now()
		o.earliest = now.Add(cmp.Or(next.After, firstWait))
		o.due = o.earliest
		if next.After == 0 && !o.hinted {
			o.due = now.Add(max(firstWait, backoff.After(o.failures, firstWait, longest)))
		}
	}
	heap.Push(&q.due, o)
}

// beginPass precedes the listing of the open orders. The list may lack orders hinted from now on.
func (q *queue) beginPass() { q.pass++ }

// endPass adds the open orders, and forgets waiting and stopped orders that are no longer open.
func (q *queue) endPass(open []string) {
	now := time.Now()
	for _, id := range open {
		if o := q.orders[id]; o != nil {
			o.seen = q.pass
		} else {
			q.add(id, now)
		}
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
