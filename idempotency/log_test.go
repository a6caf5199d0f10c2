package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/lendingtest"
)

// tampered is a store with something in front of its methods.
type tampered struct {
	store.Store
	load  func() error
	save  func(store.Entry) error // before
	saved func(store.Entry) error // after
}

func (s *tampered) Load(ctx context.Context, key string) (*store.Entry, error) {
	if s.load != nil {
		if err := s.load(); err != nil {
			return nil, err
		}
	}
	return s.Store.Load(ctx, key)
}

func (s *tampered) Save(ctx context.Context, entry store.Entry) error {
	if s.save != nil {
		if err := s.save(entry); err != nil {
			return err
		}
	}
	err := s.Store.Save(ctx, entry)
	if err == nil && s.saved != nil {
		err = s.saved(entry)
	}
	return err
}

var errStore = errors.New("the store is gone")

// withStore runs f in a bubble with a service, a store and a client.
func withStore(t *testing.T, opts *idempotency.Options,
	f func(*testing.T, *lendingtest.Service, *tampered, *lending.Client),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		nobody := &http.Client{Transport: wire.Reply(http.StatusOK, "")}
		service := lendingtest.New(lendingtest.WithDeliveryClient(nobody))
		defer service.Close()
		entries := &tampered{Store: store.NewMemory()}
		f(t, service, entries, processWith(t, service, fake.Must(idempotency.NewLog(entries, opts))))
	})
}

func TestMutationIsRecordedBeforeTheSend(t *testing.T) {
	for _, test := range []struct {
		name  string
		after bool
	}{{"the save fails", false}, {"the save fails and is done", true}} {
		t.Run(test.name, func(t *testing.T) {
			withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
				fail := func(entry store.Entry) error {
					if entry.State == store.Sent {
						entries.save, entries.saved = nil, nil // once
						return errStore
					}
					return nil
				}
				if entries.save = fail; test.after {
					entries.save, entries.saved = nil, fail
				}
				user, ctx := fake.Newcomer(), lending.WithIdempotencyKey(t.Context(), "the/key")
				_, err := client.Applications.CreateCustomer(ctx, user)
				require.ErrorIs(t, err, idempotency.ErrStore)
				require.ErrorIs(t, err, errStore)
				assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
				assert.Zero(t, service.Executed(fake.CreateRoute))
				fake.Must(client.Applications.CreateCustomer(ctx, user))
				assert.Equal(t, 1, service.Executed(fake.CreateRoute))
			})
		})
	}
}

func TestUnreadableEntryStopsTheSend(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		entries.load = func() error { return errStore }
		_, err := client.Applications.CreateCustomer(lending.WithIdempotencyKey(t.Context(), "the/key"),
			fake.Newcomer())
		require.ErrorIs(t, err, idempotency.ErrStore)
		assert.Equal(t, lending.OutcomeUnknown, lending.OutcomeOf(err), "an earlier call may have sent it")
		entries.load = nil
		for key, data := range map[string]string{"broken": "{", "without a route": "{}"} {
			require.NoError(t, entries.Save(t.Context(), store.Entry{Key: ":" + key, State: store.Free, Data: []byte(data)}))
			_, err = client.Applications.CreateCustomer(lending.WithIdempotencyKey(t.Context(), key), fake.Newcomer())
			require.ErrorIs(t, err, store.ErrCorrupt)
		}
		assert.Zero(t, service.Executed(fake.CreateRoute))
	})
}

func TestStoreFailureAfterASuccess(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		done := func(entry store.Entry) error {
			if entry.State == store.Done {
				return errStore
			}
			return nil
		}
		user, ctx := fake.Newcomer(), lending.WithIdempotencyKey(t.Context(), "the/key")
		entries.save = done
		customer, err := client.Applications.CreateCustomer(ctx, user)
		require.ErrorIs(t, err, idempotency.ErrStore)
		require.NotNil(t, customer, "the answer came")
		assert.Equal(t, service.Snapshot().Customers[0].ID, customer.ID.String())
		assert.Equal(t, lending.OutcomeDone, lending.OutcomeOf(err))
		entries.save = nil
		bubble.Elapse(2 * time.Minute)
		fake.Must(client.Applications.CreateCustomer(ctx, user))
		assert.Equal(t, 1, service.Executed(fake.CreateRoute))

		other, otherCtx := fake.Newcomer(), lending.WithIdempotencyKey(t.Context(), "another/key")
		begun := time.Now()
		entries.save = func(entry store.Entry) error {
			if time.Since(begun) < 5*time.Second {
				return done(entry)
			}
			return nil
		}
		fake.Must(client.Applications.CreateCustomer(otherCtx, other))
		assert.Equal(t, 2, service.Executed(fake.CreateRoute))
	})
}

func TestFailedCheckStopsTheSend(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, _ *tampered, client *lending.Client) {
		service.Fail(fake.EmailRoute, lendingtest.Fault{
			Status:     http.StatusTooManyRequests,
			RetryAfter: time.Hour,
		})
		user, ctx := fake.Newcomer(), lending.WithIdempotencyKey(t.Context(), "the/key")
		_, err := client.Applications.CreateCustomer(ctx, user)
		assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
		var failed *lending.Error
		require.ErrorAs(t, err, &failed)
		assert.Equal(t, fake.CreateRoute, failed.Method+" "+failed.Route)
		assert.Equal(t, time.Hour, failed.RetryAfter)
		assert.Equal(t, "retry after 1h0m0s", lending.NextOf(err).String())
		require.NotErrorIs(t, err, lending.ErrRateLimited, "the status is that of another call")

		service.Fail(fake.EmailRoute, lendingtest.Fault{Status: http.StatusForbidden})
		_, err = client.Applications.CreateCustomer(ctx, user)
		assert.Equal(t, "stop", lending.NextOf(err).String(), "%v", err)
		assert.Zero(t, service.Executed(fake.CreateRoute))
		fake.Must(client.Applications.CreateCustomer(ctx, user))
	})
}

// A mutation which waits for a sign-in, or for a person who is asked for a code, is not written
// down as sent.
func TestFailedSignInLeavesTheKeyFree(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		service.Fail(fake.LoginRoute, lendingtest.Fault{Status: http.StatusServiceUnavailable})
		entries.save = func(entry store.Entry) error {
			assert.NotEqual(t, store.Sent, entry.State)
			return nil
		}
		o := newOrder(service)
		err := client.Applications.SendLink(lending.WithIdempotencyKey(t.Context(), "the/key"), o.application)
		require.Error(t, err)
		assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
	})
}

// TestObserverContextHasNoKey has a call observer read with the context of the call.
func TestObserverContextHasNoKey(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		o, reader := newOrder(service), process()
		client := process(lending.WithObserver(func(ctx context.Context, c lending.Call) (context.Context,
			func(lending.Call),
		) {
			_, err := reader.Applications.Status(ctx, o.application)
			assert.NoError(t, err)
			return ctx, nil
		}, nil))
		require.NoError(t, client.Applications.SendLink(lending.WithIdempotencyKey(t.Context(), "the/key"),
			o.application))
	})
}

func TestInvalidKeysAreRefused(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, _ *tampered, client *lending.Client) {
		for _, key := range []string{"", "a\nb", "\xff", strings.Repeat("k", 257)} {
			_, err := client.Applications.CreateCustomer(lending.WithIdempotencyKey(t.Context(), key), fake.Newcomer())
			require.ErrorAs(t, err, new(*lending.ArgumentError), "%q", key)
		}
		ctx := lending.WithIdempotencyKey(t.Context(), "the/key")
		_, err := client.Customers.GetByEmail(ctx, "ada@example.com")
		require.ErrorAs(t, err, new(*lending.ArgumentError))
		_, err = client.Auth.RefreshToken(ctx)
		require.ErrorAs(t, err, new(*lending.ArgumentError))
		_, err = wire.NewClient(t, "https://lending.example").Applications.CreateCustomer(ctx, fake.Newcomer())
		require.ErrorContains(t, err, "key needs a client with WithIdempotency")
		assert.Empty(t, service.Requests())

		fake.Must(client.Applications.CreateCustomer(lending.WithIdempotencyKey(t.Context(), strings.Repeat("ü", 128)),
			fake.Newcomer()))
		for _, r := range service.Requests() {
			assert.NotContains(t, fmt.Sprint(r.Header, r.Query, string(r.Body)), "ü", "a key is never sent")
		}
	})
	for _, test := range []struct {
		name string
		opts *idempotency.Options
	}{
		{"MaxLateness", &idempotency.Options{MaxLateness: -1}},
		{"KeepAnswers", &idempotency.Options{KeepAnswers: -1}},
		{"MaxAnswer", &idempotency.Options{MaxAnswer: -1}},
		{"SafeToRepeat must have constants of the type Route only", &idempotency.Options{
			SafeToRepeat: []idempotency.Route{idempotency.SendLink, "POST /api/Loan/confirm-withdrawal-invoice/{loanId}"},
		}},
		{"Formerly", &idempotency.Options{Formerly: []idempotency.Account{{Name: "acme", Username: "ada"}}}},
		{"Formerly", &idempotency.Options{Formerly: []idempotency.Account{{BaseURL: "lending.example"}}}},
		{"Formerly", &idempotency.Options{Formerly: []idempotency.Account{{}}}},
		{"Namespace", &idempotency.Options{Namespace: "a:b"}},
		{"Namespace", &idempotency.Options{Namespace: strings.Repeat("n", 65)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := idempotency.NewLog(store.NewMemory(), test.opts)
			require.ErrorContains(t, err, test.name)
		})
	}
	_, err := idempotency.NewLog(store.NewMemory(), &idempotency.Options{
		Formerly: []idempotency.Account{
			{BaseURL: "https://old.example/", Username: "api-7"},
			{BaseURL: "https://new.example/", Username: "api-7"},
		},
	})
	require.NoError(t, err)
	_, err = idempotency.NewLog(nil, nil)
	require.ErrorAs(t, err, new(*lending.ArgumentError))
	_, err = lending.New("https://lending.example", lending.WithIdempotency((*idempotency.Log)(nil)))
	require.ErrorAs(t, err, new(*lending.ArgumentError))
	for _, log := range []*idempotency.Log{nil, {}} {
		_, err := log.Keys(t.Context(), doubtful)
		require.ErrorAs(t, err, new(*lending.ArgumentError))
		_, err = log.Sweep(t.Context())
		require.ErrorAs(t, err, new(*lending.ArgumentError))
		require.ErrorAs(t, log.Resolve(t.Context(), "k", idempotency.Resolution{}), new(*lending.ArgumentError))
	}
}

func TestResolveEndsAReview(t *testing.T) {
	withLog(t, func(t *testing.T, service *lendingtest.Service, process newClient, log *idempotency.Log) {
		o, client := newOrder(service), process()
		const sendLink = "POST /api/Application/send-application-link"
		send := func() error {
			return client.Applications.SendLink(lending.WithIdempotencyKey(t.Context(), "the/key"), o.application)
		}
		resolve := func(v idempotency.Verdict) error {
			return log.Resolve(t.Context(), "the/key", idempotency.Resolution{
				By: "ada", Why: "asked the customer",
				Verdict: v,
			})
		}
		require.ErrorAs(t, resolve(idempotency.Happened(nil)), new(*lending.ArgumentError), "there is no such command")
		service.Fail(sendLink, lendingtest.Fault{ResetBefore: true})
		require.ErrorIs(t, send(), lending.ErrOutcomeUnknown)
		require.ErrorIs(t, send(), idempotency.ErrNeedsReview)
		bubble.Elapse(time.Minute)

		inDoubt, err := log.Keys(t.Context(), doubtful)
		require.NoError(t, err)
		require.Len(t, inDoubt, 1)
		inDoubt[0].Position = ""
		assert.Equal(t, idempotency.KeyStatus{
			Key: "the/key", Route: sendLink, State: store.NeedsReview, Age: time.Minute, Sends: 1,
			IDs:         map[string]string{"applicationId": o.application.String()},
			NeedsPerson: true, Why: "no published field shows it", NotHappenedAfter: maxLateness - time.Minute,
			History: []idempotency.Change{
				{State: store.Sent, Age: time.Minute, Sends: 1},
				{State: store.InDoubt, Age: time.Minute, Sends: 1, Why: "connection reset"},
				{State: store.NeedsReview, Age: time.Minute, Sends: 1, Why: "no published field shows it"},
			},
		}, inDoubt[0])
		err = resolve(idempotency.NotHappened())
		require.ErrorIs(t, err, idempotency.ErrInDoubt, "it can still be executed")
		var refused *idempotency.Error
		require.ErrorAs(t, err, &refused)
		bubble.Elapse(refused.RetryAfter)
		require.NoError(t, resolve(idempotency.NotHappened()))
		require.NoError(t, send())
		assert.Equal(t, 1, service.Executed(sendLink))
		require.ErrorAs(t, resolve(idempotency.Happened(nil)), new(*lending.ArgumentError),
			"it is not in doubt any more")
		inDoubt, err = log.Keys(t.Context(), doubtful)
		require.NoError(t, err)
		assert.Empty(t, inDoubt)
		require.ErrorAs(t, log.Resolve(t.Context(), "the/key", idempotency.Resolution{}), new(*lending.ArgumentError))
	})
}

func TestSweepRemovesResponses(t *testing.T) {
	opts := &idempotency.Options{KeepAnswers: time.Hour, MaxAnswer: 200}
	withStore(t, opts, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		log := fake.Must(idempotency.NewLog(entries, opts))
		user := fake.Newcomer()
		ctx := lending.WithIdempotencyKey(t.Context(), "the/key")
		fake.Must(client.Applications.CreateCustomer(ctx, user))
		swept := fake.Must(log.Sweep(t.Context()))
		assert.Zero(t, swept)
		fake.Must(client.Applications.CreateCustomer(ctx, user))
		bubble.Elapse(time.Hour)
		for _, want := range []int{1, 0} {
			assert.Equal(t, want, fake.Must(log.Sweep(t.Context())))
		}
		kept := string(fake.Must(log.Lookup(t.Context(), "the/key")).Answer())
		assert.Contains(t, kept, `"id"`)
		assert.NotContains(t, kept, "firstName", "nothing of a person is kept")
		customer := fake.Must(client.Applications.CreateCustomer(ctx, user))
		assert.Equal(t, service.Snapshot().Customers[0].ID, customer.ID.String())
		assert.Equal(t, 1, service.Executed(fake.CreateRoute))

		loan := service.AddLoan(lendingtest.Loan{CustomerID: service.Snapshot().Customers[0].ID})
		invoice := func() error {
			id := fake.Must(lending.ParseApplicationID(loan.ApplicationID))
			_, err := client.Calculation.Invoice(lending.WithIdempotencyKey(t.Context(), "large"), id, fake.Invoice())
			return err
		}
		require.NoError(t, invoice())
		require.NoError(t, invoice(), "it was too large to be kept, and is calculated again")
	})
}

func TestEntriesHoldNoSecret(t *testing.T) {
	const canary = "C4n4ry-5ecret!"
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		var kept []store.Entry
		entries.save = func(entry store.Entry) error { kept = append(kept, entry); return nil }
		user := fake.Newcomer()
		user.Password, user.Extra = lending.NewSecret(canary), catalog.Unpublished{"token": lending.NewSecret(canary)}
		fake.Must(client.Applications.CreateCustomer(lending.WithIdempotencyKey(t.Context(), "customer"), user))
		_, err := client.Applications.UpdateCustomerData(lending.WithIdempotencyKey(t.Context(), "data"),
			catalog.Application, lending.CustomerData{
				FirstName: "Ada", LastName: "L", Address: "1", State: "CA", City: "SF", SSN: lending.NewSecret(canary),
				Mobile: "4155550100", DateOfBirth: catalog.Born,
			})
		require.Error(t, err)
		require.Len(t, kept, 4)
		for _, entry := range kept {
			assert.NotContains(t, string(entry.Data)+entry.Key+entry.Lock, canary)
			assert.NotContains(t, entry.Lock, user.Email)
		}
		assert.NotContains(t, string(kept[0].Data), user.Email, "no body of a request")
		assert.Contains(t, string(service.Requests()[1].Body)+string(service.Requests()[2].Body)+
			string(service.Requests()[3].Body), canary)
	})
}
