package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
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

type downStore struct{ store.Store }

func (downStore) Load(context.Context, string) (*store.Entry, error) {
	return nil, errors.New("SECRET")
}

func (downStore) List(context.Context, store.Filter) ([]store.Entry, error) {
	return nil, errors.New("SECRET")
}

func TestLogIsReady(t *testing.T) {
	t.Parallel()
	log, err := idempotency.NewLog(store.NewMemory(), nil)
	require.NoError(t, err)
	require.NoError(t, log.Ready(t.Context()))
	down, err := idempotency.NewLog(downStore{}, nil)
	require.NoError(t, err)
	err = down.Ready(t.Context())
	require.ErrorIs(t, err, idempotency.ErrStore)
	require.EqualError(t, err,
		"lending/idempotency: the store of the log failed: failed (*errors.errorString); check the store, then call again")
	_, err = down.Counts(t.Context())
	require.ErrorIs(t, err, idempotency.ErrStore)
	require.Error(t, new(idempotency.Log).Ready(t.Context()))
	_, err = new(idempotency.Log).Counts(t.Context())
	require.Error(t, err)
}
