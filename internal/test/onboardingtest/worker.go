package onboardingtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/examples/order"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/onboarding"
	"github.com/lendingapi/lending-go/lendingtest"
)

// work does all orders, some at a time, until they are done.
func work(ctx context.Context, address string, orders int, log *idempotency.Log) error {
	client, err := lending.New(address, lending.WithIdempotency(log), lending.WithCredentials(lending.Credentials{
		Username: lendingtest.AdministratorUsername, Password: lending.NewSecret(lendingtest.AdministratorPassword),
	}))
	if err != nil {
		return err
	}
	defer client.Close()
	k := &keyed{&order.Partner{Client: client, Ask: order.Phone(address + onboarding.PhonePath), Persons: true}, log, address}
	if err := k.reportLeft(ctx); err != nil {
		return err
	}
	next := make(chan int)
	failed := make(chan error, concurrency)
	var group sync.WaitGroup
	for range concurrency {
		group.Go(func() {
			for n := range next {
				if err := k.persist(ctx, n); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	for n := range orders {
		select {
		case next <- n:
		case err := <-failed:
			return err
		}
	}
	close(next)
	group.Wait()
	close(failed)
	return <-failed
}

// asked is the time of the orders.
var asked = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func email(n int) string { return fmt.Sprintf("customer-%d@example.com", n) }

// keyed carries orders out with a log, through the whole approval.
type keyed struct {
	*order.Partner

	log     *idempotency.Log
	address string
}

// persist begins an order at the top until it is done.
func (k *keyed) persist(ctx context.Context, n int) error {
	order := order.Order{ID: "order-" + strconv.Itoa(n), Email: email(n), Amount: "2500.00", Asked: asked}
	for {
		limited, cancel := context.WithTimeout(ctx, patience)
		err := k.Onboard(limited, order)
		cancel()
		if err == nil {
			return nil
		}
		if failed, ok := errors.AsType[*lending.Error](err); ok && failed.IdempotencyKey != "" && failed.Outcome == lending.OutcomeUnknown {
			if err := k.reportDoubt(ctx, failed.IdempotencyKey); err != nil {
				return err
			}
		}
		todo := lending.NextOf(err)
		switch {
		case todo.Person && errors.Is(err, idempotency.ErrNeedsReview):
			if err := k.review(ctx, err, order.Email); err != nil {
				return err
			}
		case todo.Person || !todo.Retry:
			return fmt.Errorf("%s: %w", order.ID, err)
		default:
			<-time.After(max(todo.After, 20*time.Millisecond))
		}
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
		seen, err := ask(ctx, http.MethodGet, k.address+onboarding.BooksPath+email+"/"+failed.Key)
		if err != nil {
			return err
		}
		verdict := idempotency.NotHappened()
		if seen == "true" {
			verdict = idempotency.Happened(nil)
		}
		said := idempotency.Resolution{By: "the trial", Why: "looked it up", Verdict: verdict, Sends: entries[0].Sends}
		return unlessRetried(k.log.Resolve(ctx, failed.Key, said))
	}
}

// unlessRetried returns err, or nil if another try is allowed.
func unlessRetried(err error) error {
	if lending.NextOf(err).Retry {
		return nil
	}
	return err
}

// reportDoubt reports a key for the count.
func (k *keyed) reportDoubt(ctx context.Context, key string) error {
	_, err := ask(ctx, http.MethodPost, k.address+onboarding.DoubtsPath+key)
	return err
}

// reportLeft reports the keys in doubt of an earlier worker.
func (k *keyed) reportLeft(ctx context.Context) error {
	filter := idempotency.Filter{States: idempotency.InDoubtStates()}
	for {
		page, err := k.log.Keys(ctx, filter)
		if err != nil || len(page) == 0 {
			return unlessRetried(err)
		}
		for _, entry := range page {
			if err := k.reportDoubt(ctx, entry.Key); err != nil {
				return err
			}
			filter.After = entry.Position
		}
	}
}

// ask reads a page of the trial that is not the service's.
func ask(ctx context.Context, method, address string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, method, address, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	return string(page), err
}
