package idempotency_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/lendingtest"
)

// patiently calls until call succeeds, and waits in between for as long as its error says: it fails
// the test where the error does not say it, or has it call too often.
func patiently(t *testing.T, call func() error) {
	t.Helper()
	for calls := 1; ; calls++ {
		err := call()
		if err == nil {
			return
		}
		var failed *lending.Error
		require.ErrorAs(t, err, &failed)
		require.Positive(t, failed.RetryAfter, "%v", err)
		require.Less(t, calls, 20, "%v", err)
		bubble.Elapse(failed.RetryAfter)
	}
}

// TestLockOfADeadProcessIsReleased loses the answer of a mutation whose owner never calls
// again: the next mutation of the lock ends what a read can end, and waits no longer than the first
// can be executed.
func TestLockOfADeadProcessIsReleased(t *testing.T) {
	const withdrawRoute = "POST /api/Loan/make-withdrawal-invoice/{loanId}"
	type call = func(ctx context.Context, client *lending.Client, o order, key string) error
	create := func(ctx context.Context, client *lending.Client, o order, key string) error {
		_, err := client.Applications.Create(lending.WithIdempotencyKey(ctx, key), o.request(), nil)
		return err
	}
	withdraw := func(ctx context.Context, client *lending.Client, o order, key string) error {
		_, err := client.Loans.WithdrawInvoice(lending.WithIdempotencyKey(ctx, key), o.loan,
			lending.InvoiceWithdrawalRequest{Calculation: *fake.Invoice()})
		return err
	}
	rename := func(ctx context.Context, client *lending.Client, o order, key string) error {
		_, err := client.Applications.UpdateName(lending.WithIdempotencyKey(ctx, key), o.application, key)
		return err
	}
	for _, test := range []struct {
		name  string
		route string
		call  call
		fault lendingtest.Fault
		waits bool        // the second for the first
		state store.State // of the first
	}{
		{"a read shows it", createApplicationRoute, create, lendingtest.Fault{ResetAfter: true}, false, store.Done},
		{"cut", createApplicationRoute, create, lendingtest.Fault{CutBody: 3}, false, store.Done},
		{"cut, no read shows it", withdrawRoute, withdraw, lendingtest.Fault{CutBody: 3}, false, store.InDoubt},
		{"no read shows it", createApplicationRoute, create, lendingtest.Fault{ResetBefore: true}, true, store.Free},
		{"executed late", createApplicationRoute, create, lendingtest.Fault{Late: 4 * time.Minute}, true, store.Done},
		{"no read tells", withdrawRoute, withdraw, lendingtest.Fault{ResetAfter: true}, true, store.NeedsReview},
		{"a value", renameRoute, rename, lendingtest.Fault{ResetBefore: true}, true, store.NeedsReview},
	} {
		t.Run(test.name, func(t *testing.T) {
			withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
				o := newOrder(service)
				prepareOrder(t, client, &o)
				service.Fail(test.route, test.fault)
				require.ErrorIs(t, test.call(t.Context(), client, o, "first"), lending.ErrMayHaveHappened)
				begun := time.Now()
				patiently(t, func() error { return test.call(t.Context(), client, o, "second") })
				if !test.waits {
					assert.Zero(t, time.Since(begun))
				}
				assert.LessOrEqual(t, time.Since(begun), maxLateness+maxLateness/2)
				first := fake.Must(entries.Load(t.Context(), ":first"))
				assert.Equal(t, test.state, first.State)
				assert.Empty(t, fake.Must(entries.Load(t.Context(), ":second")).Lock)
			})
		})
	}
}

// TestRejectedResendsEndInReview: the first send may have succeeded, and the service refuses
// every further one.
func TestRejectedResendsEndInReview(t *testing.T) {
	const cancelRoute = "POST /api/Application/cancel-application/{applicationId}"
	withLog(t, func(t *testing.T, service *lendingtest.Service, process newClient, log *idempotency.Log) {
		o, client := newOrder(service), process()
		cancel := func() error {
			return client.Applications.Cancel(lending.WithIdempotencyKey(t.Context(), "the/key"), o.application)
		}
		service.Fail(cancelRoute, lendingtest.Fault{ResetAfter: true})
		require.ErrorIs(t, cancel(), lending.ErrMayHaveHappened)
		service.Fail(cancelRoute, lendingtest.Fault{Status: http.StatusBadRequest, Times: -1})
		begun, arrived, last := time.Now(), len(service.Requests()), time.Duration(0)
		var err error
		for range 20 {
			var failed *lending.Error
			if err = cancel(); errors.Is(err, idempotency.ErrNeedsReview) {
				break
			}
			require.ErrorAs(t, err, &failed)
			assert.Equal(t, lending.OutcomeUnknown, failed.Outcome)
			require.Positive(t, failed.RetryAfter)
			require.GreaterOrEqual(t, failed.RetryAfter, last, "it grows")
			sent := len(service.Requests())
			require.Error(t, cancel())
			require.Len(t, service.Requests(), sent, "it waits")
			last = failed.RetryAfter
			bubble.Elapse(failed.RetryAfter)
			inDoubt := fake.Must(log.Keys(t.Context(), doubtful))
			require.Equal(t, time.Since(begun), inDoubt[0].Age, "it does not begin anew")
		}
		require.ErrorIs(t, err, idempotency.ErrNeedsReview)
		assert.LessOrEqual(t, len(service.Requests())-arrived, 6)
		bubble.Elapse(time.Hour)
		require.ErrorIs(t, cancel(), idempotency.ErrNeedsReview)
		assert.LessOrEqual(t, len(service.Requests())-arrived, 6)
		assert.Equal(t, time.Since(begun), fake.Must(log.Keys(t.Context(), doubtful))[0].Age)
	})
}

// TestCheckEndsAbandonedDoubts calls Check as a worker does, with a client of its own: what a
// read tells is done or free, what none tells waits for a person, and no lock is held.
func TestCheckEndsAbandonedDoubts(t *testing.T) {
	const withdrawRoute = "POST /api/Loan/make-withdrawal-invoice/{loanId}"
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		o, log := newOrder(service), fake.Must(idempotency.NewLog(entries, nil))
		prepareOrder(t, client, &o)
		lose := func(route string, fault lendingtest.Fault, call func(context.Context) error, key string) {
			service.Fail(route, fault)
			require.ErrorIs(t, call(lending.WithIdempotencyKey(t.Context(), key)), lending.ErrMayHaveHappened)
		}
		create := func(customer lending.CustomerID) func(context.Context) error {
			return func(ctx context.Context) error {
				request := o.request()
				request.CustomerID = customer
				_, err := client.Applications.Create(ctx, request, nil)
				return err
			}
		}
		someone := func() lending.CustomerID {
			return fake.Must(lending.ParseCustomerID(service.AddCustomer(lendingtest.Customer{}).ID))
		}
		before, after := lendingtest.Fault{ResetBefore: true}, lendingtest.Fault{ResetAfter: true}
		lose(createApplicationRoute, after, create(someone()), "done")
		lose(createApplicationRoute, before, create(someone()), "free")
		lose(createApplicationRoute, lendingtest.Fault{CutBody: 3}, create(someone()), "cut")
		lose(createApplicationRoute, lendingtest.Fault{Late: time.Minute}, create(someone()), "late")
		lose(withdrawRoute, after, func(ctx context.Context) error {
			_, err := client.Loans.WithdrawInvoice(ctx, o.loan, lending.InvoiceWithdrawalRequest{Calculation: *fake.Invoice()})
			return err
		}, "person")
		lose(renameRoute, before, func(ctx context.Context) error {
			_, err := client.Applications.UpdateName(ctx, o.application, "New")
			return err
		}, "value")
		lose(fake.CreateRoute, after, func(ctx context.Context) error {
			_, err := client.Applications.CreateCustomer(ctx, fake.Ada())
			return err
		}, "address")
		for calls, begun := 0, time.Now(); time.Since(begun) <= 2*maxLateness; calls++ {
			require.Less(t, calls, 40, "it does not spin")
			next := fake.Must(log.Check(t.Context(), client))
			require.Positive(t, next)
			bubble.Elapse(next)
		}
		executed := service.Executed(createApplicationRoute)
		for key, want := range map[string]store.State{
			"done": store.Done, "free": store.Free, "cut": store.Done, "late": store.Done,
			"person": store.NeedsReview, "value": store.InDoubt, "address": store.InDoubt,
		} {
			entry := fake.Must(entries.Load(t.Context(), ":"+key))
			assert.Equal(t, want, entry.State, key)
			assert.Equal(t, key == "value", entry.Lock != "", key)
			assert.NotContains(t, string(entry.Data), fake.Ada().Email)
		}
		assert.Equal(t, executed, service.Executed(createApplicationRoute), "it sends nothing")
		_, err := log.Check(t.Context(), nil)
		require.ErrorAs(t, err, new(*lending.ArgumentError))
	})
}
