package idempotency_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/lendingtest"
)

// TestAcceptRecordedReturnsTheResponse changes a request under way, as a release does that adds a field.
func TestAcceptRecordedReturnsTheResponse(t *testing.T) {
	phone := func(u *lending.UserRequest) { u.MobileNumber = "4155550199" }
	address := func(u *lending.UserRequest) { u.Email = "other@example.com" }
	for _, test := range []struct {
		name     string
		fault    lendingtest.Fault // of the first request
		change   func(*lending.UserRequest)
		want     error // of the changed request at once
		executed int   // when MaxLateness is over
		isOther  bool  // it is about another record
	}{
		{"done", lendingtest.Fault{}, phone, nil, 1, false},
		{"done, of another address", lendingtest.Fault{}, address, idempotency.ErrKeyReused, 1, true},
		{"answer cut", lendingtest.Fault{CutBody: 5}, phone, nil, 1, false},
		{"answer lost", lendingtest.Fault{ResetAfter: true}, phone, nil, 1, false},
		{"lost, of another address", lendingtest.Fault{ResetAfter: true}, address, idempotency.ErrKeyReused, 1, true},
		{"request lost", lendingtest.Fault{ResetBefore: true}, phone, idempotency.ErrInDoubt, 1, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
				client, user := process(), fake.Newcomer()
				create := func(u lending.UserRequest, opts ...keyOption) error {
					_, err := client.Applications.CreateCustomer(withKey(t.Context(), "the/key", opts...), u)
					return err
				}
				service.Fail(fake.CreateRoute, test.fault)
				if err := create(user); err != nil {
					require.ErrorIs(t, err, lending.ErrMayHaveHappened)
				}
				changed := user
				test.change(&changed)
				require.ErrorIs(t, create(changed), idempotency.ErrKeyReused, "nothing was said of it")
				require.ErrorIs(t, create(changed, idempotency.AcceptRecorded), test.want)
				bubble.Elapse(maxLateness)
				err := create(changed, idempotency.AcceptRecorded)
				if test.isOther {
					require.ErrorIs(t, err, idempotency.ErrKeyReused)
				} else {
					require.NoError(t, err)
				}
				assert.Equal(t, test.executed, service.Executed(fake.CreateRoute))
			})
		})
	}
}

// TestChangedValueIsNotResentAtOnce loses the answer of a value and then changes the value: the new one
// is not sent while the old one can come back, and never instead of one that has been set.
func TestChangedValueIsNotResentAtOnce(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		o, client := newOrder(service), process()
		set := func(key, value string) error {
			ctx := withKey(t.Context(), key, idempotency.AcceptRecorded)
			_, err := client.Applications.UpdateName(ctx, o.application, value)
			return err
		}
		service.Fail(renameRoute, lendingtest.Fault{ResetBefore: true})
		require.ErrorIs(t, set("lost", "Old"), lending.ErrOutcomeUnknown)
		require.ErrorIs(t, set("lost", "New"), idempotency.ErrInDoubt)
		bubble.Elapse(maxLateness)
		require.NoError(t, set("lost", "New"))
		service.Fail(renameRoute, lendingtest.Fault{CutBody: 1})
		require.ErrorIs(t, set("cut", "Newer"), lending.ErrMayHaveHappened)
		require.ErrorIs(t, set("cut", "Newest"), idempotency.ErrAnswerLost)
		assert.Equal(t, "Newer", service.Snapshot().Applications[1].BusinessName)
		_, err := client.Applications.UpdateName(withKey(t.Context(), "cut", idempotency.AcceptRecorded), o.offered, "X")
		require.ErrorIs(t, err, idempotency.ErrKeyReused, "it is another application")
	})
}

// TestChangedListIsCountedAsSent loses the answer of a list, which is longer in the next call. The check looks
// for the records of the first list.
func TestChangedListIsCountedAsSent(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		const createRoute = "POST /api/ApplicationBulk/create-applications"
		o, client := newOrder(service), process()
		create := func(all ...lending.ApplicationRequest) error {
			ctx := withKey(t.Context(), "the/key", idempotency.AcceptRecorded)
			_, err := client.Bulk.CreateApplications(ctx, all)
			return err
		}
		service.Fail(createRoute, lendingtest.Fault{ResetAfter: true})
		require.ErrorIs(t, create(o.request(), o.request()), lending.ErrOutcomeUnknown)
		err := create(o.request(), o.request(), o.request())
		require.ErrorIs(t, err, idempotency.ErrAnswerLost)
		assert.Equal(t, lending.OutcomeDone, lending.OutcomeOf(err))
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
