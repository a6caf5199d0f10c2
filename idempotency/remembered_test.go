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

// rememberedOf lists what a log has remembered of locks.
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
// MaxLateness: the lock remembers those that reads may not show yet, and no others.
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
