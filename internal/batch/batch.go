// Package batch lets calls that wait share a transaction of a store.
package batch

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/safely"
)

const (
	atOnce   = 4       // transactions in progress: some wait for the disk, the others prepare
	maxItems = 64      // in a transaction
	maxBytes = 1 << 20 // in a transaction, unless a single item has more
)

// Patience is the time after which a transaction in progress delays no later call. A transaction
// of several items must give up after this time, because a locked row of a single item delays all
// items.
const Patience = 100 * time.Millisecond

// ErrAlone is the result of an item that needs a transaction of its own.
var ErrAlone = errors.New("lending: the item needs a transaction of its own")

// errNext means that the transaction of the item alone is the next.
var errNext = errors.New("lending: the transaction of the item is the next")

// Store runs the transactions of items of type T.
type Store[T any] struct {
	// Alone runs the transaction of a single item. It may wait as long as its context.
	Alone func(ctx context.Context, item T) error
	// Together runs a transaction of several items, in the order of their calls, and returns the
	// result of each. After an error, each item gets a transaction of its own.
	Together func(ctx context.Context, items []T) (results []error, err error)
	// Size returns the number of bytes of an item.
	Size func(item T) int
}

// Group shares the transactions of a store.
type Group[T any] struct {
	store Store[T]

	mu      sync.Mutex
	running int        // transactions in progress
	waiting []*call[T] // oldest first
}

// call is a call that waits.
type call[T any] struct {
	ctx    context.Context //nolint:containedctx // its values, for the transaction
	item   T
	done   chan error // with room for the result
	shared *shared    // set when a transaction of several items begins
}

// shared is a transaction of several items.
type shared struct {
	callers int // that still wait
	cancel  context.CancelFunc
}

// New returns the group of a store.
func New[T any](store Store[T]) *Group[T] { return &Group[T]{store: store} }

// Do runs a transaction with the item, and returns its result. Without other calls, Do runs the
// transaction at once, for this item alone. While transactions are in progress, Do waits, and the
// next transaction has the items of all waiting calls.
//
// If ctx ends first, Do returns at once. A transaction of several items continues for the other
// calls.
func (g *Group[T]) Do(ctx context.Context, item T) error {
	c := &call[T]{ctx: ctx, item: item, done: make(chan error, 1)}
	if first, busy := g.join(c); first {
		if busy {
			runtime.Gosched() // other calls of this moment join
		}
		g.next()
	}
	err := g.wait(c)
	switch {
	case errors.Is(err, errNext):
		defer g.occupy()()
		return g.store.Alone(ctx, item)
	case errors.Is(err, ErrAlone):
		return g.store.Alone(ctx, item)
	}
	return err
}

// join reports whether the caller must begin the next transaction, and whether there are others.
func (g *Group[T]) join(c *call[T]) (first, busy bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = append(g.waiting, c)
	busy = g.running > 0
	if first = g.running < atOnce; first {
		g.running++
	}
	return first, busy
}

// wait returns the result of a call. If all callers of a transaction have left, the transaction is
// canceled.
func (g *Group[T]) wait(c *call[T]) error {
	select {
	case err := <-c.done:
		return err
	case <-c.ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if at := slices.Index(g.waiting, c); at >= 0 {
		g.waiting = slices.Delete(g.waiting, at, at+1)
		return c.ctx.Err()
	}
	select {
	case err := <-c.done: // at the same moment
		return err
	default:
	}
	if c.shared.callers--; c.shared.callers == 0 {
		c.shared.cancel()
	}
	return c.ctx.Err()
}

// next begins the next transaction, after the end of another.
func (g *Group[T]) next() {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch calls := g.gather(); len(calls) {
	case 0:
		g.running--
	case 1:
		calls[0].done <- errNext
	default:
		ctx, cancel := context.WithCancel(context.WithoutCancel(calls[0].ctx))
		of := &shared{len(calls), cancel}
		for _, c := range calls {
			c.shared = of
		}
		go func() {
			defer g.occupy()()
			defer cancel()
			g.together(ctx, calls)
		}()
	}
}

// gather removes the calls of the next transaction from the waiting calls. The caller holds the
// lock.
func (g *Group[T]) gather() []*call[T] {
	n, bytes := 0, 0
	for n < min(len(g.waiting), maxItems) {
		if bytes += g.store.Size(g.waiting[n].item); n > 0 && bytes > maxBytes {
			break
		}
		n++
	}
	calls := slices.Clone(g.waiting[:n])
	g.waiting = slices.Delete(g.waiting, 0, n)
	return calls
}

// together runs a transaction of several items and sends each call its result.
func (g *Group[T]) together(ctx context.Context, calls []*call[T]) {
	items := make([]T, len(calls))
	for i, c := range calls {
		items[i] = c.item
	}
	var results []error
	err := safely.Call[lending.PanicError](func() (err error) { // a store may call hooks of its user
		results, err = g.store.Together(ctx, items)
		return err
	})
	if err != nil {
		results = slices.Repeat([]error{ErrAlone}, len(calls))
	}
	for i, c := range calls {
		c.done <- results[i]
	}
}

// occupy returns a function that ends a transaction in progress. After Patience, the transaction
// counts as ended: it may wait for a lock, and later calls need not.
func (g *Group[T]) occupy() (end func()) {
	timer := time.AfterFunc(Patience, g.next)
	return func() {
		if timer.Stop() {
			g.next()
		}
	}
}
