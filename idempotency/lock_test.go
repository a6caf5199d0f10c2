package idempotency_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/lendingtest"
)

// TestDoubtOfAnotherAccountStays has the client of another service meet a mutation in doubt, in Check and by
// its lock: the reads of the other service prove nothing.
func TestDoubtOfAnotherAccountStays(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		o, log, sandbox := newOrder(service), fake.Must(idempotency.NewLog(entries, nil)), lendingtest.New()
		defer sandbox.Close()
		stranger := wire.NewClient(t, "https://sandbox.example", lending.WithIdempotency(log),
			lending.WithHTTPClient(&http.Client{Transport: sandbox.Transport()}),
			lending.WithCredentials(fake.Credentials(&lendingtest.Server{Service: sandbox})))
		state := func() store.State { return fake.Must(entries.Load(t.Context(), ":first")).State }
		service.Fail(createApplicationRoute, lendingtest.Fault{ResetAfter: true})
		require.ErrorIs(t, o.creates(t, client)("first"), lending.ErrOutcomeUnknown)
		second := newOrder(sandbox)
		require.Equal(t, o.customer, second.customer, "it has the same lock")
		bubble.Elapse(maxLateness)
		fake.Must(log.Check(t.Context(), stranger))
		require.Equal(t, store.InDoubt, state())
		require.NoError(t, second.creates(t, stranger)("second"))
		assert.Equal(t, store.NeedsReview, state())
		require.ErrorIs(t, o.creates(t, client)("first"), idempotency.ErrNeedsReview)
		assert.Equal(t, 1, service.Executed(createApplicationRoute))
	})
}

// TestCheckBeforeIsMadeUnderTheLock has another application made for the customer between the look
// of the second mutation and its sending.
func TestCheckBeforeIsMadeUnderTheLock(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		request := newOrder(service).request()
		looked, goOn := make(chan struct{}), make(chan struct{})
		waits := wire.RoundTripper(func(r *http.Request) (*http.Response, error) {
			resp, err := service.Transport().RoundTrip(r)
			if r.Method == http.MethodGet && looked != nil {
				close(looked)
				looked = nil
				<-goOn
			}
			return resp, err
		})
		slow := process(lending.WithHTTPClient(&http.Client{Transport: waits}))
		seen := looked
		second := make(chan error)
		ctx := lending.WithIdempotencyKey(t.Context(), "second")
		go func() {
			_, err := slow.Applications.Create(ctx, request, nil)
			second <- err
		}()
		<-seen
		bubble.Elapse(time.Minute)
		first, err := process().Applications.Create(lending.WithIdempotencyKey(t.Context(), "first"), request, nil)
		require.NoError(t, err)
		service.Fail(createApplicationRoute, lendingtest.Fault{ResetBefore: true})
		close(goOn)
		require.ErrorIs(t, <-second, lending.ErrOutcomeUnknown)
		bubble.Elapse(maxLateness)
		id, err := process().Applications.Create(ctx, request, nil)
		require.NoError(t, err)
		assert.NotEqual(t, first, id, "the application of another key was taken for this one's")
		assert.Equal(t, 2, service.Executed(createApplicationRoute))
	})
}

// TestNamespacesShareNoLock has a mutation in doubt in a namespace: the same record is free in
// another, which stands for another service.
func TestNamespacesShareNoLock(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		o, entries := newOrder(service), store.NewMemory()
		rename := func(namespace, key string) error {
			log := fake.Must(idempotency.NewLog(entries, &idempotency.Options{Namespace: namespace}))
			_, err := processWith(t, service, log).Applications.UpdateName(
				lending.WithIdempotencyKey(t.Context(), key), o.application, "New")
			return err
		}
		service.Fail(renameRoute, lendingtest.Fault{ResetBefore: true})
		require.ErrorIs(t, rename("a", "1"), lending.ErrOutcomeUnknown)
		require.ErrorIs(t, rename("a", "2"), idempotency.ErrLocked)
		require.NoError(t, rename("b", "2"))
	})
}

// A record in the query has a lock like a record in the path.
func TestSubscriptionOfACustomerHasALock(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		client := process()
		update := func(key string, customer lendingtest.Customer) error {
			target := lending.ForCustomer(fake.Must(lending.ParseCustomerID(customer.ID)))
			return client.Webhooks.UpdateURI(lending.WithIdempotencyKey(t.Context(), key), target,
				"https://receiver.invalid/")
		}
		ada := service.AddCustomer(lendingtest.Customer{Email: "ada@example.com"})
		grace := service.AddCustomer(lendingtest.Customer{Email: "grace@example.com"})
		service.Fail("POST /api/Webhook/update-webhook-uri", lendingtest.Fault{ResetBefore: true})
		require.ErrorIs(t, update("1", ada), lending.ErrOutcomeUnknown)
		require.ErrorIs(t, update("2", ada), idempotency.ErrLocked)
		require.NotErrorIs(t, update("3", grace), idempotency.ErrLocked)
	})
}

// TestSweptValueHoldsNoLock repeats a mutation when the first can no longer be executed:
// a newer value need not wait.
func TestSweptValueHoldsNoLock(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		o, client := newOrder(service), process()
		rename := o.renames(t, client)
		service.Fail(renameRoute, lendingtest.Fault{ResetBefore: true})
		require.ErrorIs(t, rename("older"), lending.ErrOutcomeUnknown)
		bubble.Elapse(maxLateness)
		require.NoError(t, rename("older"))
		require.NoError(t, rename("newer"))
	})
}

// TestLockOfADeadProcessIsReleased loses the answer of a mutation whose owner never calls
// again: the next mutation of the lock ends the doubt if a read can, and waits no longer than the first
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

// TestLockThatWasFreedMeanwhileIsTaken has the owner of a lock free it after the store has refused
// the lock to another, and before the other looks at the owner.
func TestLockThatWasFreedMeanwhileIsTaken(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		o := newOrder(service)
		rename := o.renames(t, client)
		service.Fail(renameRoute, lendingtest.Fault{Status: http.StatusBadRequest})
		require.Equal(t, lending.OutcomeRejected, lending.OutcomeOf(rename("owner")))
		entries.save = func(store.Entry) error {
			entries.save = nil // once
			return &store.LockedError{Key: ":owner"}
		}
		require.NoError(t, rename("other"))
	})
}

// TestLockOfACheckIsWaitedForAMoment has a second mutation meet a first during its check: the wait is a
// moment, not the longest time of a check.
func TestLockOfACheckIsWaitedForAMoment(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		create := newOrder(service).creates(t, client)
		var refused *idempotency.Error
		entries.saved = func(store.Entry) error {
			entries.saved = nil // once
			err := create("second")
			require.ErrorIs(t, err, idempotency.ErrLocked)
			require.ErrorAs(t, err, &refused)
			return nil
		}
		require.NoError(t, create("first"))
		assert.Equal(t, time.Second, refused.RetryAfter)
	})
}

// TestLockedCallSaysWhenToCallAgain has a mutation in flight, which has the lock of another: the
// other says how long the first may take, and is not sent.
func TestLockedCallSaysWhenToCallAgain(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		o, client, other := newOrder(service), process(), process()
		require.NoError(t, client.Session().SignIn(t.Context()))
		held, ended := make(chan struct{}), make(chan error)
		service.Fail(renameRoute, lendingtest.Fault{Reached: func() { close(held) }, DelayBefore: time.Hour})
		go func() { ended <- o.rename(t, client, "first", "First") }()
		<-held
		var refused *idempotency.Error
		err := o.rename(t, other, "second", "Second")
		require.ErrorAs(t, err, &refused)
		require.ErrorIs(t, refused, idempotency.ErrLocked)
		assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
		assert.Equal(t, []string{"second", "first"}, []string{refused.Key, refused.Held})
		assert.Equal(t, 10*time.Second, refused.RetryAfter)
		require.ErrorIs(t, <-ended, lending.ErrOutcomeUnknown)
	})
}

// TestSafeToRepeatKeepsTheLock sends a creation twice, the first of which is executed late:
// the next creation for the customer would take this application for its own.
func TestSafeToRepeatKeepsTheLock(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		o, client := newOrder(service), process()
		create := o.creates(t, client)
		service.Fail(createApplicationRoute, lendingtest.Fault{Late: time.Minute})
		require.ErrorIs(t, create("older", idempotency.SafeToRepeat), lending.ErrOutcomeUnknown)
		require.NoError(t, create("older", idempotency.SafeToRepeat))
		service.Fail(createApplicationRoute, lendingtest.Fault{ResetBefore: true})
		err := create("newer")
		require.ErrorIs(t, err, idempotency.ErrLocked)
		var refused *idempotency.Error
		require.ErrorAs(t, err, &refused)
		assert.Equal(t, maxLateness, refused.RetryAfter)
		bubble.Elapse(refused.RetryAfter)
		require.ErrorIs(t, create("newer"), lending.ErrOutcomeUnknown)
		require.ErrorIs(t, create("newer"), idempotency.ErrInDoubt)
		assert.Equal(t, 2, service.Executed(createApplicationRoute))
	})
}

// TestVerdictKeepsTheLockOfTwoSends after two sends of the mutation.
func TestVerdictKeepsTheLockOfTwoSends(t *testing.T) {
	for _, test := range []struct {
		name string
		says func(*testing.T, *idempotency.Log, func(...keyOption) error)
	}{
		{"a person", func(t *testing.T, log *idempotency.Log, _ func(...keyOption) error) {
			t.Helper()
			require.NoError(t, log.Resolve(t.Context(), "name-1", idempotency.Resolution{
				By: "ada", Why: "seen", Sends: 2,
				Verdict: idempotency.Happened(true),
			}))
		}},
		{"a look", func(t *testing.T, _ *idempotency.Log, older func(...keyOption) error) {
			t.Helper()
			require.NoError(t, older(withCheck(func(context.Context) (idempotency.Verdict,
				error,
			) {
				return idempotency.Happened(true), nil
			})))
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			withLog(t, func(t *testing.T, service *lendingtest.Service, process newClient, log *idempotency.Log) {
				o, client := newOrder(service), process()
				set := func(key, value string, opts ...keyOption) error {
					_, err := client.Applications.UpdateName(withKey(t.Context(), key, opts...), o.application, value)
					return err
				}
				service.Fail(renameRoute, lendingtest.Fault{Late: maxLateness - time.Second})
				service.Fail(renameRoute, lendingtest.Fault{ResetAfter: true})
				for range 2 {
					require.ErrorIs(t, set("name-1", "Old"), lending.ErrOutcomeUnknown)
				}
				test.says(t, log, func(opts ...keyOption) error { return set("name-1", "Old", opts...) })
				var refused *idempotency.Error
				for err := set("name-2", "New"); err != nil; err = set("name-2", "New") {
					require.ErrorIs(t, err, idempotency.ErrLocked)
					require.ErrorAs(t, err, &refused)
					bubble.Elapse(refused.RetryAfter)
				}
				bubble.Elapse(2 * maxLateness)
				assert.Equal(t, "New", service.Snapshot().Applications[1].BusinessName)
			})
		})
	}
}

// TestLockIsHeldWhereNothingIsRemembered has the store fail to save the records of a mutation: the
// next mutation of the lock waits until reads show these records.
func TestLockIsHeldWhereNothingIsRemembered(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		o := newOrder(service)
		create := o.creates(t, client)
		entries.save = func(entry store.Entry) error {
			if strings.HasPrefix(entry.Key, "#") {
				return errStore
			}
			return nil
		}
		require.NoError(t, create("first"))
		entries.save = nil
		err := create("second")
		require.ErrorIs(t, err, idempotency.ErrLocked)
		var refused *idempotency.Error
		require.ErrorAs(t, err, &refused)
		assert.Equal(t, maxLateness, refused.RetryAfter)
		bubble.Elapse(maxLateness)
		require.NoError(t, create("second"))
		assert.Equal(t, 2, service.Executed(createApplicationRoute))
	})
}

// TestLostResponseIsFoundBeforeTheNextMutation cuts the response of the first application. The
// second application waits until reads show the id of the first: of two new applications nobody
// could tell which is whose.
func TestLostResponseIsFoundBeforeTheNextMutation(t *testing.T) {
	withLog(t, func(t *testing.T, service *lendingtest.Service, process newClient, _ *idempotency.Log) {
		o, client := newOrder(service), process()
		create := o.createsID(t, client)
		service.Fail(createApplicationRoute, lendingtest.Fault{CutBody: 3})
		_, err := create("first")
		require.ErrorIs(t, err, lending.ErrMayHaveHappened)
		begun := service.Snapshot().Applications
		_, err = create("second")
		require.ErrorIs(t, err, idempotency.ErrLocked)
		require.Positive(t, lending.NextOf(err).After)
		var second lending.ApplicationID
		patiently(t, func() error { second, err = create("second"); return err })
		first, err := create("first")
		require.NoError(t, err)
		assert.Equal(t, begun[len(begun)-1].ID, first.String())
		assert.NotEqual(t, first, second)
		assert.Equal(t, 2, service.Executed(createApplicationRoute))
	}, lendingtest.WithReadLag(time.Second))
}
