package idempotency_test

import (
	"context"
	"fmt"
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
	"github.com/lendingapi/lending-go/lendingtest"
)

// TestKeysShowWhatAPersonNeeds has mutations in every state, and looks at what their entries say.
func TestKeysShowWhatAPersonNeeds(t *testing.T) {
	type mutation struct {
		name, route string
		call        func(context.Context, *lending.Client, order) error
		faults      []lendingtest.Fault // one for each call, an empty one for none
		resolve     *idempotency.Resolution
		want        idempotency.KeyStatus
		ids         func(order) map[string]string
	}
	application := func(o order) map[string]string { return map[string]string{"applicationId": o.application.String()} }
	link := func(ctx context.Context, c *lending.Client, o order) error {
		return c.Applications.SendLink(ctx, o.application)
	}
	const linkRoute = "POST /api/Application/send-application-link"
	lost := lendingtest.Fault{ResetAfter: true}
	for _, test := range []mutation{
		{
			name: "needs a person at the next call", route: linkRoute, call: link, ids: application,
			faults: []lendingtest.Fault{lost},
			want: idempotency.KeyStatus{
				State: store.InDoubt, Sends: 1, NeedsPerson: true, Why: "no published field shows it",
				NotHappenedAfter: maxLateness - time.Minute,
			},
		},
		{
			name: "sets a value", route: renameRoute, faults: []lendingtest.Fault{lost}, ids: application,
			call: func(ctx context.Context, c *lending.Client, o order) error {
				_, err := c.Applications.UpdateName(ctx, o.application, "Ada Lovelace")
				return err
			},
			want: idempotency.KeyStatus{
				State: store.InDoubt, Sends: 1, CheckWith: "Applications.Get", NotHappenedAfter: maxLateness - time.Minute,
			},
		},
		{
			name: "is checked", route: createApplicationRoute, faults: []lendingtest.Fault{lost},
			call: func(ctx context.Context, c *lending.Client, o order) error {
				_, err := c.Applications.Create(ctx, o.request(), nil)
				return err
			},
			ids: func(o order) map[string]string { return map[string]string{"customerId": o.customer.String()} },
			want: idempotency.KeyStatus{
				State: store.InDoubt, Sends: 1, CheckWith: "Applications.ListByCustomer",
				NotHappenedAfter: maxLateness - time.Minute,
			},
		},
		{
			name: "an account's number", ids: application,
			route: "POST /api/ApplicationApproval/set-primary-bank-account/{applicationId}/{id}",
			call: func(ctx context.Context, c *lending.Client, o order) error {
				return c.Approval.SetPrimaryBankAccount(ctx, o.application, "000123456789")
			},
			faults: []lendingtest.Fault{lost},
			want: idempotency.KeyStatus{
				State: store.InDoubt, Sends: 1, CheckWith: "Approval.PrimaryBankAccount",
				NotHappenedAfter: maxLateness - time.Minute,
			},
		},
		{
			name: "resolved", route: linkRoute, call: link, faults: []lendingtest.Fault{lost}, ids: application,
			resolve: &idempotency.Resolution{By: "ada", Why: "she has it", Verdict: idempotency.Happened(nil)},
			want: idempotency.KeyStatus{
				State: store.Forgotten, Sends: 1, Why: "she has it", ResolvedBy: "ada", Correctable: true,
			},
		},
		{
			name: "done", route: linkRoute, call: link, faults: []lendingtest.Fault{{}}, ids: application,
			want: idempotency.KeyStatus{State: store.Done, Sends: 1},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			withLog(t, func(t *testing.T, service *lendingtest.Service, process newClient, log *idempotency.Log) {
				o, client := newOrder(service), process()
				for _, fault := range test.faults {
					service.Fail(test.route, fault)
					_ = test.call(lending.WithIdempotencyKey(t.Context(), "order-42/step"), client, o)
				}
				if test.resolve != nil {
					require.NoError(t, log.Resolve(t.Context(), "order-42/step", *test.resolve))
				}
				bubble.Elapse(time.Minute)
				entries := fake.Must(log.Keys(t.Context(), idempotency.Filter{Prefix: "order-42/"}))
				require.Len(t, entries, 1)
				test.want.Key, test.want.Route = "order-42/step", test.route
				test.want.Age, test.want.IDs = time.Minute, test.ids(o)
				entries[0].Position, entries[0].History = "", nil // see TestHistoryTellsWhatHappened
				assert.Equal(t, test.want, entries[0])
			})
		})
	}
}

// TestEntryWithoutACheckBeforeNeedsAPerson has the service refuse the read before the mutation.
func TestEntryWithoutACheckBeforeNeedsAPerson(t *testing.T) {
	withLog(t, func(t *testing.T, service *lendingtest.Service, process newClient, log *idempotency.Log) {
		const add = "POST /api/ApplicationApproval/add-secondary-applicant-details/{applicationId}"
		o, client := newOrder(service), process()
		service.Fail("GET /api/ApplicationApproval/get-all-applicants/{applicationId}", lendingtest.Fault{Status: 400})
		service.Fail(add, lendingtest.Fault{Status: 503})
		require.ErrorIs(t, client.Approval.AddSecondaryApplicantDetails(lending.WithIdempotencyKey(t.Context(), "the/key"),
			o.application, lending.SecondaryApplicantRequest{}), lending.ErrOutcomeUnknown)
		entry := fake.Must(log.Keys(t.Context(), doubtful))[0]
		assert.Equal(t, store.InDoubt, entry.State)
		assert.True(t, entry.NeedsPerson)
		assert.Equal(t, "the count of records before the send is not known", entry.Why)
	})
}

// TestEntryInFlightSaysFromWhenItCanBeDecided has a call hang until its deadline.
func TestEntryInFlightSaysFromWhenItCanBeDecided(t *testing.T) {
	withLog(t, func(t *testing.T, service *lendingtest.Service, process newClient, log *idempotency.Log) {
		o, client := newOrder(service), process()
		service.Fail("POST /api/Application/send-application-link", lendingtest.Fault{DelayBefore: time.Hour})
		ended := make(chan error)
		go func() {
			ctx, stop := context.WithTimeout(lending.WithIdempotencyKey(t.Context(), "the/key"), time.Minute)
			defer stop()
			ended <- client.Applications.SendLink(ctx, o.application)
		}()
		bubble.Elapse(10 * time.Second)
		entry := fake.Must(log.Keys(t.Context(), doubtful))[0]
		assert.Equal(t, store.Sent, entry.State)
		assert.Equal(t, 50*time.Second, entry.HappenedAfter)
		assert.Equal(t, 50*time.Second+maxLateness, entry.NotHappenedAfter)
		require.Error(t, <-ended)
	})
}

// TestEntriesComeInPages goes through more entries than a page holds, in every state, and meets
// one that cannot be read.
func TestEntriesComeInPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entries := store.NewMemory()
		log := fake.Must(idempotency.NewLog(entries, &idempotency.Options{Namespace: "live"}))
		states := []store.State{
			store.Free, store.Sent, store.InDoubt, store.NeedsReview, store.Done, store.Forgotten,
		}
		for i := range 150 {
			for _, namespace := range []string{"live", "sandbox"} {
				data := `{"request":{"route":"POST /a"}}`
				if i == 3 {
					data = "{"
				}
				require.NoError(t, entries.Save(t.Context(), store.Entry{
					Key: fmt.Sprintf("%s:order-%03d", namespace, i), State: states[i%len(states)], Data: []byte(data),
				}))
			}
			bubble.Elapse(time.Second)
		}
		var keys []string
		filter := idempotency.Filter{}
		for {
			page := fake.Must(log.Keys(t.Context(), filter))
			if len(page) == 0 {
				break
			}
			assert.LessOrEqual(t, len(page), 100)
			for _, entry := range page {
				keys = append(keys, entry.Key)
				assert.Equal(t, entry.Key == "order-003", entry.Why == store.ErrCorrupt.Error(), entry.Key)
			}
			filter.After = page[len(page)-1].Position
		}
		require.Len(t, keys, 150)
		assert.IsIncreasing(t, keys)

		for _, test := range []struct {
			name   string
			filter idempotency.Filter
			want   int
		}{
			{"a prefix", idempotency.Filter{Prefix: "order-00"}, 10},
			{"states", idempotency.Filter{States: idempotency.InDoubtStates()}, 75},
			{"an age", idempotency.Filter{Older: 145 * time.Second}, 6},
			{"a limit", idempotency.Filter{Limit: 7}, 7},
			{"another namespace", idempotency.Filter{Prefix: "sandbox:"}, 0},
		} {
			assert.Len(t, fake.Must(log.Keys(t.Context(), test.filter)), test.want, test.name)
		}
		for _, odd := range []idempotency.Filter{{Limit: -1}, {Older: -1}} {
			_, err := log.Keys(t.Context(), odd)
			assert.NotEmpty(t, catalog.Refused(t, err))
		}
		_, err := log.Keys(t.Context(), idempotency.Filter{After: "nowhere"})
		require.ErrorIs(t, err, store.ErrPosition)
	})
}
