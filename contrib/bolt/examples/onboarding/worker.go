package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/internal/test/partner"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/orders"

	lendingbolt "github.com/lendingapi/lending-go/contrib/bolt"
)

// patience is the deadline of a step. After a worker was killed, the next worker leaves its last
// mutation alone until this time is over: the first worker could still be alive.
const patience = time.Second

// work carries all orders out. A restarted worker begins each order at the top. Only the
// idempotency log knows the finished steps.
func work(ctx context.Context, address, phone, directory string) error {
	store, err := lendingbolt.OpenIdempotencyStore(filepath.Join(directory, "log"), nil)
	if err != nil {
		return err
	}
	defer store.Close()
	log, err := idempotency.NewLog(store, &idempotency.Options{MaxLateness: maxLateness})
	if err != nil {
		return err
	}
	client, err := lending.New(address,
		lending.WithCredentials(lending.Credentials{
			Username:           lendingtest.Username,
			Password:           lending.NewSecret(lendingtest.Password),
			TrustedDeviceToken: lending.NewSecret(lendingtest.TrustedDeviceToken),
		}),
		lending.WithIdempotency(log))
	if err != nil {
		return err
	}
	defer client.Close()
	rows, err := readOrders(directory)
	if err != nil {
		return err
	}
	return seeThrough(ctx, rows, &partner.Partner{Client: client, Phone: phone})
}

// seeThrough returns when all orders are done, or with an error when an order needs a person.
func seeThrough(ctx context.Context, rows *table, p *partner.Partner) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	step := func(ctx context.Context, order string) error {
		row, open := rows.get(order)
		if !open { // it ended after the worker had listed it
			return nil
		}
		err := p.Onboard(ctx, row)
		if err == nil && rows.done(order) {
			stop(errAllDone)
		}
		return err
	}
	worker, err := orders.New(rows.open, step, &orders.Options{
		Concurrency: 4, StepsPerMinute: 60_000, StepTimeout: patience,
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

var errAllDone = errors.New("all orders are done")

// table is the partner's table of orders. In your program the table is in a database, which
// remembers finished orders. This table forgets them when the process ends, and the log then
// replays their mutations.
type table struct {
	mu   sync.Mutex
	rows map[string]partner.Order
}

func readOrders(directory string) (*table, error) {
	text, err := os.ReadFile(filepath.Join(directory, "orders.json")) //nolint:gosec // the path comes from the parent process
	if err != nil {
		return nil, err
	}
	var all []partner.Order
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	t := &table{rows: map[string]partner.Order{}}
	for _, o := range all {
		t.rows[o.ID] = o
	}
	return t, nil
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
func (t *table) get(id string) (partner.Order, bool) {
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
