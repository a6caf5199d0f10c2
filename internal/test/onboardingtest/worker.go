package onboardingtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/examples/order"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/onboarding"
	"github.com/lendingapi/lending-go/internal/test/steer"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/orders"
)

// work does all orders until they are done, in the loop that the documentation gives.
func work(ctx context.Context, address string, orderCount, missing int, log *idempotency.Log,
	lock func(context.Context, string) (func(), error),
) error {
	isMissing := lending.WithMissing("Customers.GetByEmail", missing)
	client, err := lending.New(address, isMissing, lending.WithIdempotency(log), lending.WithCredentials(lending.Credentials{
		Username: lendingtest.AdministratorUsername, Password: lending.NewSecret(lendingtest.AdministratorPassword),
	}))
	if err != nil {
		return err
	}
	defer client.Close()
	all, _ := order.Orders(orderCount)
	k := &keyed{log: log, address: address, table: order.NewTable(all...)}
	ctx, k.stop = context.WithCancelCause(ctx)
	phone := func(ctx context.Context, _ order.Order, loan lending.LoanID, _ int) (lending.Secret, error) {
		password, err := ask(ctx, address+onboarding.PhonePath+loan.String())
		return lending.NewSecret(password), err
	}
	partner := &order.Partner{Client: client, Log: log, Ask: phone, Persons: persons}
	k.worker, err = partner.Worker(k.table, &orders.Options{
		Concurrency: Concurrency, StepsPerMinute: 600_000, StepTimeout: patience, Lock: lock,
		Report: func(r orders.Result) { k.report(ctx, r) },
	})
	if err != nil {
		return err
	}
	_ = k.worker.Run(ctx)
	k.people.Wait()
	if err := context.Cause(ctx); !errors.Is(err, errAllDone) {
		return err
	}
	return nil
}

// The limits of a worker.
const (
	Concurrency = 20          // orders per worker
	patience    = time.Second // for a try of an order, and so for a lease
)

// persons selects each fourth order. The others have checks of the partner's own, as in AGENTS.md.
func persons(o order.Order) bool {
	var n int
	_, err := fmt.Sscanf(o.ID, "order-%d", &n)
	return err == nil && n%4 == 0
}

var errAllDone = errors.New("all orders are done")

// keyed carries orders out with a log, through the whole approval.
type keyed struct {
	log     *idempotency.Log
	address string
	table   *order.Table
	worker  *orders.Worker
	stop    context.CancelCauseFunc
	people  sync.WaitGroup
	asked   sync.Map // the keys that a person looks up
}

// report asks a person if one is needed, and ends the work after the last order.
func (k *keyed) report(ctx context.Context, r orders.Result) {
	if o := k.table.Get(r.Order); o.State == order.Over {
		k.stop(fmt.Errorf("%s is over: %s", r.Order, o.Reason))
	}
	if open, _ := k.table.Open(ctx); len(open) == 0 {
		k.stop(errAllDone)
	}
	failed, ok := errors.AsType[*lending.Error](r.Err)
	switch {
	case !r.Next.Person:
	case !ok || failed.IdempotencyKey == "" || !errors.Is(r.Err, idempotency.ErrNeedsReview):
		k.stop(fmt.Errorf("%s: %w", r.Order, r.Err))
	default:
		if _, known := k.asked.LoadOrStore(failed.IdempotencyKey, true); known {
			return
		}
		k.people.Go(func() {
			defer k.asked.Delete(failed.IdempotencyKey)
			if err := k.review(ctx, r.Err, k.table.Get(r.Order).Email); err != nil && ctx.Err() == nil {
				k.stop(err)
			}
			k.worker.Hint(r.Order)
		})
	}
}

// review is a person, who waits until nothing can happen any more, looks the mutation up in the
// books of the service and decides.
func (k *keyed) review(ctx context.Context, refused error, email string) error {
	failed, ok := errors.AsType[*idempotency.Error](refused)
	if !ok {
		return refused
	}
	for {
		entries, err := k.log.Keys(ctx, idempotency.Filter{Prefix: failed.Key, States: []store.State{store.NeedsReview}})
		if err != nil || len(entries) == 0 {
			return unlessRetried(err)
		}
		if wait := entries[0].NotHappenedAfter; wait > 0 {
			<-time.After(wait)
			continue
		}
		seen, err := ask(ctx, k.address+onboarding.BooksPath+email+"/"+failed.Key)
		if err != nil {
			return err
		}
		verdict := idempotency.NotHappened()
		if seen == "true" {
			verdict = idempotency.Happened(nil)
		}
		said := idempotency.Resolution{By: "the trial", Why: "looked it up", Verdict: verdict, Sends: entries[0].Sends}
		err = k.log.Resolve(ctx, failed.Key, said)
		argument, ok := errors.AsType[*lending.ArgumentError](err)
		if ok && slices.Contains([]string{"key", "Correct", "Sends"}, argument.Fields[0].Field) {
			continue // the person of the other replica has decided
		}
		return unlessRetried(err)
	}
}

// unlessRetried returns err, or nil if another try is allowed.
func unlessRetried(err error) error {
	if lending.NextOf(err).Retry {
		return nil
	}
	return err
}

// ask reads a page of the trial that is not the service's.
func ask(ctx context.Context, address string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", err
	}
	response, err := steer.Unkept.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	if response.StatusCode != http.StatusOK {
		err = errors.Join(err, fmt.Errorf("the trial answers %s", response.Status))
	}
	return string(page), err
}
