package idempotency_test

import (
	"context"
	"errors"
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

func TestCountsByState(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		entries := store.NewMemory()
		log, err := idempotency.NewLog(entries, &idempotency.Options{Namespace: "live"})
		require.NoError(t, err)
		save := func(namespace string, state store.State, number int) {
			for n := range number {
				entry := store.Entry{Key: fmt.Sprintf("%s:%s %d", namespace, state, n), State: state}
				entry.Data = []byte(`{"request":{"route":"POST /a"},"send":{"lease":36000000000000,"isCallers":true}}`)
				require.NoError(t, entries.Save(t.Context(), entry))
			}
		}
		counts, err := log.Counts(t.Context())
		require.NoError(t, err)
		require.Equal(t, idempotency.Counts{}, counts)
		save("live", store.NeedsReview, 2)
		<-time.After(time.Hour)
		save("live", store.Sent, 1003)
		save("live", store.Done, 3)
		save("sandbox", store.InDoubt, 3)
		<-time.After(time.Hour)
		counts, err = log.Counts(t.Context())
		require.NoError(t, err)
		require.Equal(t, idempotency.Counts{
			Sent:        idempotency.StateCount{Count: 1000, Oldest: time.Hour},
			NeedsReview: idempotency.StateCount{Count: 2, Oldest: 2 * time.Hour},
		}, counts)
	})
}

func TestLogIsReady(t *testing.T) {
	t.Parallel()
	entries := store.NewMemory()
	log, err := idempotency.NewLog(entries, nil)
	require.NoError(t, err)
	require.NoError(t, log.Ready(t.Context()))
	require.NoError(t, log.Ready(t.Context()))
	all := fake.Must(entries.List(t.Context(), store.Filter{States: []store.State{store.Done}, Limit: 10}))
	require.Len(t, all, 1, "the probes write the same entry")
	require.Empty(t, fake.Must(log.Keys(t.Context(), idempotency.Filter{})), "no key")
	restored(t, log, copyOfAnHourAgo())
	require.NoError(t, log.Ready(t.Context()))
	standby := &tampered{Store: store.NewMemory(), save: func(store.Entry) error { return errStore }}
	err = fake.Must(idempotency.NewLog(standby, nil)).Ready(t.Context())
	require.ErrorIs(t, err, idempotency.ErrStore)
	require.ErrorContains(t, err, "it accepts no write: connect to the primary if it is a standby or read-only")
	other := &tampered{Store: store.NewMemory(), save: func(store.Entry) error { return store.ErrConflict }}
	require.NoError(t, fake.Must(idempotency.NewLog(other, nil)).Ready(t.Context()), "another process is ready")
	secret := errors.New("SECRET")
	down := fake.Must(idempotency.NewLog(&tampered{
		load: func(string) error { return secret }, list: func() error { return secret },
	}, nil))
	err = down.Ready(t.Context())
	require.ErrorIs(t, err, idempotency.ErrStore)
	require.EqualError(t, err,
		"lending/idempotency: the store of the log failed: an error of type *errors.errorString, "+
			"not shown because its text may be confidential; check the store, then call again")
	_, err = down.Counts(t.Context())
	require.ErrorIs(t, err, idempotency.ErrStore)
	require.Error(t, new(idempotency.Log).Ready(t.Context()))
	_, err = new(idempotency.Log).Counts(t.Context())
	require.Error(t, err)
}

// TestKeysShowTheReviews has mutations in every state, and reads the statuses of their keys.
func TestKeysShowTheReviews(t *testing.T) {
	type mutation struct {
		name, route string
		call        func(context.Context, *lending.Client, order) error
		faults      []lendingtest.Fault // for each call; empty for none
		resolve     *idempotency.Resolution
		want        idempotency.KeyStatus
		ids         func(order) map[string]string
	}
	application := func(o order) map[string]string { return map[string]string{"applicationId": o.application.String()} }
	link := func(ctx context.Context, c *lending.Client, o order) error {
		return c.Applications.SendLink(ctx, o.application)
	}
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
				entries[0].Position, entries[0].History = "", nil // see TestHistoryListsTheChanges
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
		service.Fail(linkRoute, lendingtest.Fault{DelayBefore: time.Hour})
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
// an unreadable entry.
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

// TestLookupNeedsNoRequest asks for the state and the answer of a key, which nothing prints.
func TestLookupNeedsNoRequest(t *testing.T) {
	withLog(t, func(t *testing.T, service *lendingtest.Service, process newClient, log *idempotency.Log) {
		client, user := process(), fake.Newcomer()
		create := func(key string, u lending.UserRequest) {
			_, _ = client.Applications.CreateCustomer(lending.WithIdempotencyKey(t.Context(), key), u)
		}
		create("done", user)
		create("refused", user)
		service.Fail(fake.CreateRoute, lendingtest.Fault{ResetAfter: true})
		create("lost", fake.Newcomer())
		service.Fail(fake.CreateRoute, lendingtest.Fault{CutBody: 4})
		create("cut", fake.Newcomer())
		arrived := len(service.Requests())
		for _, test := range []struct {
			key     string
			state   store.State
			outcome lending.Outcome
			answer  bool
		}{
			{"never used", store.Free, lending.OutcomeNotSent, false},
			{"refused", store.Free, lending.OutcomeNotSent, false},
			{"lost", store.InDoubt, lending.OutcomeUnknown, false},
			{"cut", store.InDoubt, lending.OutcomeDone, false},
			{"done", store.Done, lending.OutcomeDone, true},
		} {
			r := fake.Must(log.Lookup(t.Context(), test.key))
			assert.Equal(t, test.key, r.Key)
			assert.Equal(t, test.state, r.State, test.key)
			assert.Equal(t, test.outcome, r.Outcome, test.key)
			assert.Equal(t, test.answer, r.Answer() != nil, test.key)
			assert.NotContains(t, fmt.Sprintf("%v %+v %#v", r, *r, r), user.Email)
		}
		never := fake.Must(log.Lookup(t.Context(), "never used")).KeyStatus
		assert.Equal(t, idempotency.KeyStatus{Key: "never used", State: store.Free}, never)
		assert.Contains(t, string(fake.Must(log.Lookup(t.Context(), "done")).Answer()), user.Email)
		assert.Len(t, service.Requests(), arrived)
		var none *idempotency.Log
		_, err := none.Lookup(t.Context(), "done")
		require.ErrorAs(t, err, new(*lending.ArgumentError))
	})
}
