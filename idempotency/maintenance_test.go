package idempotency_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
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

// TestHangingReadDelaysNoOtherCheck has hanging reads for nine customers: Check makes eight checks at
// once, each of at most 10 seconds, and ends the doubt about the application of a tenth customer.
func TestHangingReadDelaysNoOtherCheck(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		log := fake.Must(idempotency.NewLog(entries, nil))
		hang := make(map[string]bool)
		for i := range 10 {
			customer := service.AddCustomer(lendingtest.Customer{}).ID
			service.Fail(createApplicationRoute, lendingtest.Fault{ResetAfter: true})
			_, err := client.Applications.Create(lending.WithIdempotencyKey(t.Context(), fmt.Sprint("order-", i)),
				lending.ApplicationRequest{
					CustomerID: lending.CustomerID(uuid.MustParse(customer)), BusinessName: "Lovelace", BusinessZip: "94105",
				}, nil)
			require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
			hang[customer] = i < 9
		}
		hanging := wire.NewClient(t, "https://lending.example",
			lending.WithCredentials(fake.Credentials(&lendingtest.Server{Service: service})), lending.WithIdempotency(log),
			lending.WithHTTPClient(&http.Client{Transport: wire.RoundTripper(func(r *http.Request) (*http.Response, error) {
				if hang[r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]] {
					<-r.Context().Done()
					return nil, r.Context().Err()
				}
				return service.Transport().RoundTrip(r)
			})}))
		bubble.Elapse(time.Second)
		begun := time.Now()
		ctx, stop := context.WithTimeout(t.Context(), 30*time.Second) // as the loop over the orders has
		defer stop()
		next, err := log.Check(ctx, hanging)
		require.Error(t, err)
		require.NoError(t, ctx.Err(), "it ends by itself")
		assert.Equal(t, time.Second, next, "a minute without a doubt; with one, the age of the doubt")
		assert.Equal(t, 20*time.Second, time.Since(begun))
		assert.Equal(t, store.Done, fake.Must(entries.Load(t.Context(), ":order-9")).State)
	})
}

// TestFailedSaveWithAnEffectAsksNobody has a save that fails and has its effect: the call said "not
// sent", and the next call of the same process sends the mutation, without a person.
func TestFailedSaveWithAnEffectAsksNobody(t *testing.T) {
	const link = "POST /api/Application/send-application-link"
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		o := newOrder(service)
		send := func(client *lending.Client) error {
			ctx, stop := context.WithTimeout(lending.WithIdempotencyKey(t.Context(), "the/key"), time.Minute)
			defer stop()
			return client.Applications.SendLink(ctx, o.application)
		}
		gone := false
		entries.saved = func(store.Entry) error { gone = true; return errStore }
		entries.load = func() error { return map[bool]error{true: errStore}[gone] }
		entries.save = func(store.Entry) error { return map[bool]error{true: errStore}[gone] }
		err := send(client)
		require.ErrorIs(t, err, idempotency.ErrStore)
		assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
		entries.saved, entries.load, entries.save = nil, nil, nil
		require.Equal(t, store.Sent, fake.Must(entries.Load(t.Context(), ":the/key")).State)

		others := fake.Must(idempotency.NewLog(entries, nil))
		other := processWith(t, service, others)
		require.ErrorIs(t, send(other), idempotency.ErrInProgress, "another process cannot know")
		bubble.Elapse(maxLateness)
		assert.Equal(t, 1, fake.Must(others.Keys(t.Context(), doubtful))[0].Sends)
		service.Fail(link, lendingtest.Fault{ResetAfter: true})
		require.ErrorIs(t, send(client), lending.ErrOutcomeUnknown)
		bubble.Elapse(maxLateness)
		r := says(idempotency.NotHappened())
		r.Sends = 1
		assert.Equal(t, "Sends conflict", catalog.Refused(t, others.Resolve(t.Context(), "the/key", r)), "of an older look")
		assert.Equal(t, 1, service.Executed(link))
		r.Verdict, r.Sends = idempotency.Happened(nil), 2
		require.NoError(t, others.Resolve(t.Context(), "the/key", r))
		require.NoError(t, send(client))
		require.NoError(t, send(other))
		assert.Equal(t, 1, service.Executed(link))
	})
}

// TestEmptyObjectIsNoCustomer has a service that answers {} if no customer has the address: the
// customer is created, and is not there when the request is lost.
func TestEmptyObjectIsNoCustomer(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		client := process()
		service.Answer(fake.EmailRoute, wire.Answer(http.StatusOK, `{}`))
		service.Fail(fake.CreateRoute, lendingtest.Fault{ResetBefore: true})
		create := func() error {
			_, err := client.Applications.CreateCustomer(lending.WithIdempotencyKey(t.Context(), "the/key"), fake.Ada())
			return err
		}
		require.ErrorIs(t, create(), lending.ErrOutcomeUnknown)
		err := create()
		require.ErrorIs(t, err, idempotency.ErrInDoubt)
		assert.NotContains(t, err.Error(), "other fields have changed", "nothing has changed")
		assert.ErrorContains(t, err, "no read shows the mutation")
		bubble.Elapse(maxLateness)
		require.NoError(t, create())
		assert.Equal(t, 1, service.Executed(fake.CreateRoute))
	})
}

// TestCheckTriesAFewIDsOnly has a record with many UUIDs, of which one is that of the customer.
func TestCheckTriesAFewIDsOnly(t *testing.T) {
	for count, want := range map[int]error{16: nil, 17: idempotency.ErrAnswerLost} {
		keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
			client := process()
			create := func() error {
				_, err := client.Applications.CreateCustomer(lending.WithIdempotencyKey(t.Context(), "the/key"), fake.Ada())
				return err
			}
			service.Fail(fake.CreateRoute, lendingtest.Fault{ResetAfter: true})
			require.ErrorIs(t, create(), lending.ErrOutcomeUnknown)
			uuids := []string{service.Snapshot().Customers[0].ID}
			for len(uuids) < count {
				uuids = append(uuids, uuid.NewString())
			}
			body := fake.Must(json.Marshal(map[string]any{"ids": uuids}))
			service.Answer(fake.EmailRoute, wire.Answer(http.StatusOK, string(body)))
			require.ErrorIs(t, create(), want)
		})
	}
}

// readOnly is a store with a failing Replace.
type readOnly struct{ store.Store }

func (readOnly) Replace(context.Context, []store.Entry) (int, error) { return 0, errStore }

// TestStoreThatFailsIsReported has a store that fails under Resolve and under Forget.
func TestStoreThatFailsIsReported(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		o, log := newOrder(service), fake.Must(idempotency.NewLog(entries, nil))
		create := o.creates(t, client)
		require.NoError(t, create("order/done"))
		service.Fail(createApplicationRoute, lendingtest.Fault{ResetBefore: true})
		require.ErrorIs(t, create("lost"), lending.ErrOutcomeUnknown)
		resolve := func() error { return log.Resolve(t.Context(), "lost", says(idempotency.Happened(o.application))) }
		forget := func() error {
			_, err := log.Forget(t.Context(), "order/done")
			return err
		}
		entries.load = func() error { return errStore }
		require.ErrorIs(t, resolve(), idempotency.ErrStore)
		require.ErrorIs(t, forget(), idempotency.ErrStore)
		entries.load = nil
		entries.save = func(entry store.Entry) error {
			return map[bool]error{true: errStore}[strings.Contains(entry.Key, "#")] // the entry of the lock
		}
		require.ErrorIs(t, resolve(), idempotency.ErrStore, "the verdict counts as a record of the lock")
		require.Equal(t, store.InDoubt, fake.Must(entries.Load(t.Context(), ":lost")).State)
		entries.save = func(entry store.Entry) error { return map[bool]error{true: errStore}[entry.Key == ":lost"] }
		require.ErrorIs(t, resolve(), idempotency.ErrStore)
		entries.save = nil
		corrupt := store.Entry{Key: ":corrupt", State: store.Done, Data: []byte("?")}
		require.NoError(t, entries.Store.Save(t.Context(), corrupt))
		bubble.Elapse(maxLateness)
		_, err := log.Forget(t.Context(), "corrupt")
		require.ErrorIs(t, err, store.ErrCorrupt)
		err = log.Resolve(t.Context(), "corrupt", says(idempotency.Happened(nil)))
		require.ErrorIs(t, err, store.ErrCorrupt)
		require.NoError(t, resolve())
		bubble.Elapse(maxLateness)
		for _, keys := range []string{"order/done", "order/"} {
			_, err = fake.Must(idempotency.NewLog(readOnly{entries}, nil)).Forget(t.Context(), keys)
			require.ErrorIs(t, err, idempotency.ErrStore)
			_, err = fake.Must(idempotency.NewLog(downStore{}, nil)).Forget(t.Context(), keys)
			require.ErrorIs(t, err, idempotency.ErrStore)
		}
	})
}

// TestRejectedResendOfADoneMutationIsDone has a service that cuts the response to a calculation,
// and rejects the resend: the error still says that the mutation happened, and no other calculation
// waits for it.
func TestRejectedResendOfADoneMutationIsDone(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		const route = "POST /api/Calculation/application-invoice-calculation"
		client := process()
		o := newOrder(service)
		calculate := func(key string) error {
			ctx := lending.WithIdempotencyKey(t.Context(), key)
			_, err := client.Calculation.Invoice(ctx, o.application, fake.Invoice())
			return err
		}
		service.Fail(route, lendingtest.Fault{CutBody: 3})
		require.Equal(t, lending.OutcomeDone, lending.OutcomeOf(calculate("old")))
		bubble.Elapse(maxLateness)
		service.Fail(route, lendingtest.Fault{Status: http.StatusBadRequest})
		err := calculate("old")
		assert.Equal(t, lending.OutcomeDone, lending.OutcomeOf(err))
		var failed *lending.Error
		require.ErrorAs(t, err, &failed)
		assert.Equal(t, http.StatusBadRequest, failed.StatusCode)
		require.NoError(t, calculate("new"))
		bubble.Elapse(failed.RetryAfter)
		require.NoError(t, calculate("old"))
	})
}
