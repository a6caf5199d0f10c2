package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/lendingapi/lending-go/examples/order"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/internal/test/onboarding"
	"github.com/lendingapi/lending-go/orders"

	lendingbolt "github.com/lendingapi/lending-go/contrib/bolt"
)

var errAllDone = errors.New("all orders are done")

// work carries all orders out. A restarted worker begins each order at the top. Only the
// idempotency log knows the finished steps.
func work(ctx context.Context, address, path string) error {
	keys, closeLog, err := openLog(path)
	if err != nil {
		return err
	}
	defer closeLog() //nolint:errcheck // each mutation is on the disk
	p, err := order.New(address, onboarding.PhonePath, keys)
	if err != nil {
		return err
	}
	defer p.Client.Close()

	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	table := newTable()
	step := func(ctx context.Context, order string) error {
		row, open := table.get(order)
		if !open { // it ended after the worker had listed it
			return nil
		}
		err := p.Onboard(ctx, row)
		if err == nil && table.done(order) {
			stop(errAllDone) // your program waits for further orders
		}
		return err
	}
	over := func(_ context.Context, order string, err error) error { // your program records the reason
		stop(fmt.Errorf("%s is over: %w", order, err))
		return nil
	}
	worker, err := orders.New(table.open, step, over, &orders.Options{
		Concurrency: 4, StepsPerMinute: 60_000, StepTimeout: onboarding.StepTimeout, // keep the defaults
		Report: func(r orders.Result) { // your program tells a person, and continues with the other orders
			if r.Err != nil && (r.Next.Person || !r.Next.Retry) {
				stop(fmt.Errorf("%s: %s: %w", r.Order, r.Next, r.Err))
			}
		},
	})
	if err != nil {
		return err
	}
	_ = worker.Run(ctx)
	if err := context.Cause(ctx); !errors.Is(err, errAllDone) {
		return err
	}
	return nil
}

// openLog opens the log of idempotency keys. Your program passes nil for the options.
func openLog(path string) (keys *idempotency.Log, closeLog func() error, err error) {
	entries, err := lendingbolt.OpenIdempotencyStore(path, nil)
	if err != nil {
		return nil, nil, err
	}
	keys, err = idempotency.NewLog(entries, &idempotency.Options{MaxLateness: onboarding.MaxLateness, SafeToRepeat: order.SafeToRepeat})
	return keys, entries.Close, err
}

// table is the partner's table of orders. In your program the table is in a database, which
// remembers finished orders. This table forgets them when the process ends, and the log then
// replays their mutations.
type table struct {
	mu   sync.Mutex
	rows map[string]order.Order
}

func newTable() *table {
	t := &table{rows: map[string]order.Order{}}
	all, _ := order.Orders(customers)
	for _, o := range all {
		t.rows[o.ID] = o
	}
	return t
}

// open lists the open orders.
func (t *table) open(context.Context) (ids []string, _ error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id := range t.rows {
		ids = append(ids, id)
	}
	return ids, nil
}

// get returns an order, and whether it is open.
func (t *table) get(id string) (order.Order, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	order, open := t.rows[id]
	return order, open
}

// done closes an order and reports whether it was the last one.
func (t *table) done(id string) (last bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.rows, id)
	return len(t.rows) == 0
}
