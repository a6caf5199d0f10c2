package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/examples/order"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/internal/test/onboarding"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/ops"
	"github.com/lendingapi/lending-go/orders"
	"github.com/lendingapi/lending-go/webhook"

	lendingbolt "github.com/lendingapi/lending-go/contrib/bolt"
)

var errAllDone = errors.New("all orders are done")

// work carries all orders out, in a process with its stores in directory. A restarted backend begins
// each order at the top. Only the idempotency log knows the finished steps.
func work(ctx context.Context, address, directory, listen string) error {
	keys, closeLog, err := openLog(directory)
	if err != nil {
		return err
	}
	defer closeLog() //nolint:errcheck // each mutation is on the disk
	inbox, err := lendingbolt.OpenInbox(filepath.Join(directory, "webhooks.db"), nil)
	if err != nil {
		return err
	}
	defer inbox.Close()
	tokens, err := lending.NewFileTokenStore(filepath.Join(directory, "token")) // your program encrypts it
	if err != nil {
		return err
	}
	partner, err := order.New(address, onboarding.PhonePath, keys, lending.WithTokenStore(tokens))
	if err != nil {
		return err
	}
	defer partner.Client.Close()

	all, _ := order.Orders(customers)
	table := order.NewTable(all...)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	worker, err := partner.Worker(table, &orders.Options{
		StepsPerMinute: 60_000, StepTimeout: onboarding.StepTimeout, // keep the defaults
		Report: func(r orders.Result) {
			o := table.Get(r.Order)
			open, _ := table.Open(ctx)
			switch {
			case r.Next.Person: // your program tells an operator
				stop(fmt.Errorf("%s: %w", r.Order, r.Err))
			case o.State == order.Over:
				stop(fmt.Errorf("%s is over: %s", r.Order, o.Reason))
			case len(open) == 0:
				stop(errAllDone) // your program waits for further orders
			}
		},
	})
	if err != nil {
		return err
	}
	return serve(ctx, listen, partner.Client, keys, inbox, table, worker)
}

// serve receives webhooks as hints, shows the operator's page, and runs the worker until ctx ends.
func serve(ctx context.Context, listen string, client *lending.Client, keys *idempotency.Log, inbox *lendingbolt.Inbox,
	table *order.Table, worker *orders.Worker,
) error {
	partner, err := lending.ParsePartnerID(lendingtest.PartnerID)
	if err != nil {
		return err
	}
	subscription := lending.WebhookSubscription{WebhookURI: "http://" + listen + "/webhooks"} // yours has https
	consumer, err := webhook.NewConsumer(client, lending.ForPartner(partner), subscription, inbox,
		worker.OnEvent(table.Of), &webhook.ConsumerOptions{Sweep: keys.Sweep, Check: keys.Check})
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/webhooks", consumer)
	mux.Handle("/ops/", ops.Handler(ops.Options{
		Log:      keys,
		Inboxes:  map[string]webhook.DeadLetters{"webhooks": inbox},
		Sessions: map[string]*lending.Session{"service": client.Session()},
		Resolved: func(key string) { // a person has decided: the order goes on at once
			id, _, _ := strings.Cut(key, "/")
			worker.Hint(id)
		},
	}))
	var running sync.WaitGroup
	running.Go(func() { _ = worker.Run(ctx) })
	err = consumer.Run(ctx, &http.Server{Addr: listen, Handler: mux}) //nolint:gosec // Run sets a ReadHeaderTimeout
	running.Wait()
	if cause := context.Cause(ctx); err == nil && !errors.Is(cause, errAllDone) {
		err = cause
	}
	return err
}

// openLog opens the log of idempotency keys. Your program passes nil for the options.
func openLog(directory string) (keys *idempotency.Log, closeLog func() error, err error) {
	entries, err := lendingbolt.OpenIdempotencyStore(filepath.Join(directory, "mutations.db"), nil)
	if err != nil {
		return nil, nil, err
	}
	keys, err = idempotency.NewLog(entries, &idempotency.Options{
		MaxLateness: onboarding.MaxLateness, SafeToRepeat: order.SafeToRepeat,
	})
	return keys, entries.Close, err
}
