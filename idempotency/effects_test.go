package idempotency_test

import (
	"bytes"
	"context"
	"fmt"
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

// rememberedOf lists the entries of locks in a store.
func rememberedOf(t *testing.T, entries store.Store) []store.Entry {
	t.Helper()
	filter := store.Filter{Prefix: "#", States: []store.State{store.Free}, Limit: 10}
	return fake.Must(entries.List(t.Context(), filter))
}

// TestRememberedLocksCannotBeGuessed reads an encrypted store without its key: the hash of a lock
// is not the hash of this lock in another store.
func TestRememberedLocksCannotBeGuessed(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		inner, other, o := entries.Store, store.NewMemory(), newOrder(service)
		entries.Store = fake.Must(store.NewEncrypted(inner, bytes.Repeat([]byte{7}, 32)))
		entries.save = func(entry store.Entry) error {
			if entry.Key == "!" { // another log saves its salt at the same time
				return entries.Store.Save(t.Context(), entry)
			}
			return nil
		}
		ofItsOwn := withCheck(func(context.Context) (idempotency.Verdict, error) {
			return idempotency.NeedsReview("nobody asks"), nil
		})
		second := processWith(t, service, fake.Must(idempotency.NewLog(entries, nil)))
		elsewhere := processWith(t, service, fake.Must(idempotency.NewLog(other, nil)))
		for i, client := range []*lending.Client{client, second, client, elsewhere} {
			ctx := withKey(t.Context(), fmt.Sprint("create ", i), ofItsOwn)
			fake.Must(client.Applications.Create(ctx, o.request(), nil))
		}
		remembered := rememberedOf(t, inner)
		require.Len(t, remembered, 1, "the logs of a store remember a lock together")
		assert.NotEqual(t, rememberedOf(t, other)[0].Key, remembered[0].Key)
	})
}

// TestSaltOfLocksNeedsTheStore has the store fail to keep the salt: nothing is sent.
func TestSaltOfLocksNeedsTheStore(t *testing.T) {
	for _, test := range []struct {
		name string
		with func(*tampered, func(store.Entry) error)
	}{
		{"the save fails", func(s *tampered, fail func(store.Entry) error) { s.save = fail }},
		{"the save fails and is done", func(s *tampered, fail func(store.Entry) error) { s.saved = fail }},
	} {
		t.Run(test.name, func(t *testing.T) {
			withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
				o := newOrder(service)
				create := o.creates(t, client)
				test.with(entries, func(entry store.Entry) error {
					if entry.Key == "!" {
						return errStore
					}
					return nil
				})
				err := create("the/key")
				require.ErrorIs(t, err, idempotency.ErrStore)
				require.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
				entries.save, entries.saved = nil, nil
				require.NoError(t, create("the/key"))
				assert.Equal(t, 1, service.Executed(createApplicationRoute))
			})
		})
	}
}

// TestEffectsOfALockExpire creates applications for a customer more often than once in
// MaxLateness: the lock remembers only records before the end of MaxLateness.
func TestEffectsOfALockExpire(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		o := newOrder(service)
		var ids []string
		for i := range 12 {
			ctx := lending.WithIdempotencyKey(t.Context(), fmt.Sprint("create ", i))
			ids = append(ids, fake.Must(client.Applications.Create(ctx, o.request(), nil)).String())
			bubble.Elapse(maxLateness/4 + time.Second)
		}
		remembered := string(rememberedOf(t, entries)[0].Data)
		for i, id := range ids {
			if i < len(ids)-4 {
				assert.NotContains(t, remembered, id)
			} else {
				assert.Contains(t, remembered, id)
			}
		}
	})
}

// TestReadsThatLagDoNotTakeTheFirstForTheSecond makes two mutations of a lock in a row, and
// loses the request of the second. The check before the second does not show the first yet, and
// the check after it does: the first must not be taken for the second.
func TestReadsThatLagDoNotTakeTheFirstForTheSecond(t *testing.T) {
	for _, test := range []struct {
		name  string
		first []keyOption
	}{
		{"counted before", nil},
		{"with a check of the caller", []keyOption{withCheck(func(context.Context) (idempotency.Verdict, error) {
			return idempotency.NeedsReview("nobody asks"), nil
		})}},
	} {
		t.Run(test.name, func(t *testing.T) {
			withLog(t, func(t *testing.T, service *lendingtest.Service, process newClient, log *idempotency.Log) {
				o, client := newOrder(service), process()
				create := o.createsID(t, client)
				first, err := create("first", test.first...)
				require.NoError(t, err)
				service.Fail(createApplicationRoute, lendingtest.Fault{ResetBefore: true})
				_, err = create("second")
				require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
				bubble.Elapse(2 * time.Second) // the reads show the first
				_, err = create("second")
				require.Error(t, err, "it has not happened")
				require.NotEqual(t, lending.OutcomeDone, lending.OutcomeOf(err))
				assert.Len(t, fake.Must(log.Keys(t.Context(), doubtful)), 1)
				assert.Equal(t, 1, service.Executed(createApplicationRoute))
				if test.first != nil {
					return // nothing has counted the applications
				}
				bubble.Elapse(maxLateness)
				second, err := create("second")
				require.NoError(t, err)
				assert.NotEqual(t, first, second)
				assert.Equal(t, 2, service.Executed(createApplicationRoute))
			}, lendingtest.WithReadLag(time.Second))
		})
	}
}

// TestReadsThatLagDoNotClaimAWithdrawal is the README's way through two withdrawals: the second
// is lost, and only the first has moved money.
func TestReadsThatLagDoNotClaimAWithdrawal(t *testing.T) {
	withLog(t, func(t *testing.T, service *lendingtest.Service, process newClient, log *idempotency.Log) {
		confirm := withdrawals(t, service, process())
		require.NoError(t, confirm("first"))
		service.Fail(confirmRoute, lendingtest.Fault{ResetBefore: true})
		require.ErrorIs(t, confirm("second"), lending.ErrOutcomeUnknown)
		bubble.Elapse(2 * time.Second)
		require.Error(t, confirm("second"), "it has not happened")
		assert.Len(t, fake.Must(log.Keys(t.Context(), doubtful)), 1)
		assert.Equal(t, 1, service.Executed(confirmRoute))
	}, lendingtest.WithReadLag(time.Second))
}

// TestVerdictOfAPersonIsRemembered has a person say that the first of two mutations happened,
// while reads do not show it yet.
func TestVerdictOfAPersonIsRemembered(t *testing.T) {
	withLog(t, func(t *testing.T, service *lendingtest.Service, process newClient, log *idempotency.Log) {
		o, client := newOrder(service), process()
		create := o.creates(t, client)
		service.Fail(createApplicationRoute, lendingtest.Fault{ResetAfter: true})
		require.ErrorIs(t, create("first"), lending.ErrOutcomeUnknown)
		require.NoError(t, log.Resolve(t.Context(), "first", says(idempotency.Happened(o.application)))) // an old id
		service.Fail(createApplicationRoute, lendingtest.Fault{ResetBefore: true})
		require.ErrorIs(t, create("second"), lending.ErrOutcomeUnknown)
		bubble.Elapse(2 * time.Minute)
		require.ErrorIs(t, create("second"), idempotency.ErrInDoubt)
		assert.Equal(t, 1, service.Executed(createApplicationRoute))
	}, lendingtest.WithReadLag(time.Minute))
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
