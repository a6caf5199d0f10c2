package idempotency_test

import (
	"context"
	"strings"
	"testing"
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

var asked = idempotency.Decision{By: "kim", Why: "request 4711"}

// TestErasedKeyProtectsItsMutation in each state without a doubt, whatever the caller says. The data of
// the customer are gone, and those of another customer are not.
func TestErasedKeyProtectsItsMutation(t *testing.T) {
	for _, test := range []struct {
		state   store.State
		outcome lending.Outcome
	}{{store.Done, lending.OutcomeDone}, {store.Forgotten, lending.OutcomeDone}, {store.Free, lending.OutcomeNotSent}} {
		t.Run(string(test.state), func(t *testing.T) {
			withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
				log, o := fake.Must(idempotency.NewLog(entries, nil)), newOrder(service)
				user, other := fake.Newcomer(), fake.Newcomer()
				add := func(key string, user lending.UserRequest) lending.CustomerID {
					ctx := lending.WithIdempotencyKey(t.Context(), key)
					return fake.Must(client.Applications.CreateCustomer(ctx, user)).ID
				}
				theirs, ours := add("b/customer", other), add("a/customer", user)
				o.customer = ours
				if test.state == store.Free {
					service.Fail(createApplicationRoute, lendingtest.Fault{Status: 400})
				}
				create, isFree := o.creates(t, client), test.state == store.Free
				made, err := o.createsID(t, client)("a/create")
				assert.Equal(t, isFree, err != nil)
				if test.state == store.Forgotten {
					bubble.Elapse(31 * 24 * time.Hour)
					fake.Must(log.Sweep(t.Context()))
				}
				bubble.Elapse(maxLateness)
				executed := service.Executed(createApplicationRoute)
				ids := []string{strings.ToUpper(ours.String()), made.String()} // Sweep removes the first from a/create
				require.Equal(t, 2, fake.Must(log.Erase(t.Context(), asked, ids...)))
				require.Zero(t, fake.Must(log.Erase(t.Context(), asked, ids...)))

				absent := withCheck(func(context.Context) (idempotency.Verdict, error) { return idempotency.NotHappened(), nil })
				for _, opts := range [][]keyOption{nil, {idempotency.SafeToRepeat}, {idempotency.AcceptRecorded}, {absent}} {
					err := create("a/create", opts...)
					require.ErrorIs(t, err, idempotency.ErrErased)
					assert.Equal(t, test.outcome, lending.OutcomeOf(err))
					assert.Zero(t, lending.NextOf(err))
					assert.ErrorContains(t, err, "only another mutation needs a new key")
				}
				r := says(idempotency.Happened(o.application))
				r.Correct = isFree
				assert.Equal(t, "key conflict", catalog.Refused(t, log.Resolve(t.Context(), "a/create", r)))
				assert.Equal(t, executed, service.Executed(createApplicationRoute))

				key := fake.Must(log.Lookup(t.Context(), "a/create"))
				assert.Equal(t, []any{true, "request 4711", "kim"}, []any{key.Erased, key.Why, key.ResolvedBy})
				assert.Empty(t, key.IDs)
				assert.False(t, key.Correctable)
				assert.Nil(t, key.Answer())
				assert.Equal(t, store.Sent, key.History[0].State, "the history stays")
				all := dumped(t, entries)
				assert.NotContains(t, all, ours.String())
				assert.NotContains(t, all, made.String())
				assert.NotContains(t, all, user.Email)
				assert.Equal(t, theirs, add("b/customer", other))
				assert.Equal(t, executed, service.Executed(createApplicationRoute))
			})
		})
	}
}

// dumped returns all entries of the log and of its locks.
func dumped(t *testing.T, entries store.Store) (all string) {
	t.Helper()
	states := append(idempotency.InDoubtStates(), store.Free, store.Done, store.Forgotten)
	for _, entry := range fake.Must(entries.List(t.Context(), store.Filter{States: states, Limit: 1000})) {
		all += entry.Key + " " + entry.Lock + " " + string(entry.Data) + "\n"
	}
	return all
}

// TestEraseWaitsForOpenKeys has a doubt and a key that has just changed: Erase removes nothing, and says which keys
// are open, and how each ends.
func TestEraseWaitsForOpenKeys(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		log, o := fake.Must(idempotency.NewLog(entries, nil)), newOrder(service)
		link := func(key string) error {
			return client.Applications.SendLink(lending.WithIdempotencyKey(t.Context(), key), o.application)
		}
		erase := func(want ...string) {
			t.Helper()
			before := dumped(t, entries)
			n, err := log.Erase(t.Context(), asked, o.application.String(), o.customer.String())
			require.Error(t, err)
			assert.Zero(t, n)
			assert.Equal(t, before, dumped(t, entries))
			for _, text := range want {
				require.ErrorContains(t, err, text)
			}
		}
		require.NoError(t, link("a/old"))
		bubble.Elapse(maxLateness)
		require.NoError(t, link("a/young"))
		lost := lendingtest.Fault{ResetAfter: true}
		service.Fail(linkRoute, lost)
		require.ErrorIs(t, link("a/lost"), lending.ErrOutcomeUnknown)
		service.Fail(createApplicationRoute, lost)
		require.ErrorIs(t, o.creates(t, client)("a/application"), lending.ErrOutcomeUnknown)
		service.Fail(renameRoute, lost)
		require.ErrorIs(t, o.rename(t, client, "a/name", "New"), lending.ErrOutcomeUnknown)
		erase(`key "a/young": the key has just changed, and a loop can still call its mutation; retry after 5m0s`,
			`key "a/lost": no check can tell whether the mutation happened: no published field shows it; a person decides`,
			`key "a/application": whether the mutation happened is not known yet: Log.Check or the next call with the key ends`,
			`key "a/name": whether the mutation happened is not known yet: the next call with the key ends the doubt`)
		require.ErrorIs(t, link("a/lost"), idempotency.ErrNeedsReview)
		require.NoError(t, o.creates(t, client)("a/application"))
		require.NoError(t, o.rename(t, client, "a/name", "New"))
		bubble.Elapse(maxLateness)
		erase(`key "a/lost": no check can tell`)
		require.NoError(t, log.Resolve(t.Context(), "a/lost", says(idempotency.Happened(nil))))
		bubble.Elapse(2 * maxLateness)
		assert.Equal(t, 5, fake.Must(log.Erase(t.Context(), asked, o.application.String(), o.customer.String())))
		assert.NotContains(t, dumped(t, entries), o.application.String())
		assert.NotContains(t, dumped(t, entries), "the books say so")
	})
}

// TestLateOwnerDoesNotBringErasedDataBack: its save comes after a review, a verdict and Erase.
func TestLateOwnerDoesNotBringErasedDataBack(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		log, o := fake.Must(idempotency.NewLog(entries, nil)), newOrder(service)
		entries.save = func(entry store.Entry) error {
			if entry.State != store.Done {
				return nil
			}
			entries.save = nil
			bubble.Elapse(2*time.Minute + maxLateness)
			fake.Must(log.Check(t.Context(), client))
			require.NoError(t, log.Resolve(t.Context(), "a/link", says(idempotency.NotHappened())))
			bubble.Elapse(maxLateness)
			require.Equal(t, 1, fake.Must(log.Erase(t.Context(), asked, o.application.String())))
			return nil
		}
		require.NoError(t, client.Applications.SendLink(lending.WithIdempotencyKey(t.Context(), "a/link"), o.application))
		assert.True(t, fake.Must(log.Lookup(t.Context(), "a/link")).Erased)
		assert.NotContains(t, dumped(t, entries), o.application.String())
	})
}

func TestEraseNeedsUUIDsAPersonAndAReason(t *testing.T) {
	log, id := fake.Must(idempotency.NewLog(store.NewMemory(), nil)), "8c1b5a6e-2f7d-4b5b-9a51-0c7a3f5d2e10"
	for want, by := range map[string]idempotency.Decision{"By required": {Why: "a"}, "Why required": {By: "a"}} {
		_, err := log.Erase(t.Context(), by, id)
		assert.Equal(t, want, catalog.Refused(t, err))
	}
	_, err := log.Erase(t.Context(), asked)
	assert.Equal(t, "ids required", catalog.Refused(t, err))
	_, err = log.Erase(t.Context(), asked, id, "ada@example.com")
	assert.Equal(t, "ids format", catalog.Refused(t, err))
}
