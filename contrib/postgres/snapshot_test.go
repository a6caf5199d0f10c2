package lendingpostgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go/webhook"
	"github.com/stretchr/testify/require"

	lendingpostgres "github.com/lendingapi/lending-go/contrib/postgres"
)

var everyLevel = []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable}

// snapshot begins a transaction and takes its snapshot.
func snapshot(t *testing.T, pool *pgxpool.Pool, level pgx.TxIsoLevel) pgx.Tx {
	t.Helper()
	tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	_, err = tx.Exec(t.Context(), "SELECT")
	require.NoError(t, err)
	return tx
}

// An event that another transaction has put in between is a duplicate at every isolation level,
// and the transaction can continue.
func TestPutTxInASnapshot(t *testing.T) {
	for _, level := range everyLevel {
		t.Run(string(level), func(t *testing.T) {
			pool := migrated(t)
			inbox := inboxOf(pool, &lendingpostgres.InboxOptions{Keep: time.Hour})
			expired := func() {
				_, err := pool.Exec(t.Context(), "UPDATE lending_inbox_seen SET at = at - interval '61 min'")
				require.NoError(t, err)
			}
			require.NoError(t, inbox.Put(t.Context(), event("put again")))
			require.NoError(t, inbox.Put(t.Context(), event("deleted")))
			expired()
			tx := snapshot(t, pool, level)
			require.NoError(t, inbox.Put(t.Context(), event("new")))
			require.NoError(t, inbox.Put(t.Context(), event("put again")))
			_, err := pool.Exec(t.Context(), "DELETE FROM lending_inbox_seen WHERE at < now() - interval '1 hour'")
			require.NoError(t, err)

			require.ErrorIs(t, inbox.PutTx(t.Context(), tx, event("new")), webhook.ErrDuplicate)
			require.ErrorIs(t, inbox.PutTx(t.Context(), tx, event("put again")), webhook.ErrDuplicate)
			require.NoError(t, inbox.PutTx(t.Context(), tx, event("deleted")), "its key was forgotten")
			require.ErrorIs(t, inbox.PutTx(t.Context(), tx, event("deleted")), webhook.ErrDuplicate)
			require.NoError(t, tx.Commit(t.Context()))
			require.Equal(t, 5, counts(t, inbox).Waiting)
		})
	}
}

// Two transactions that put the same event wait for each other, and a single one puts the event.
func TestPutTxWaitsInASnapshot(t *testing.T) {
	for _, level := range everyLevel {
		t.Run(string(level), func(t *testing.T) {
			pool := migrated(t)
			inbox := inboxOf(pool, nil)
			first, second := snapshot(t, pool, level), snapshot(t, pool, level)
			require.NoError(t, inbox.PutTx(t.Context(), first, event("a")))
			put := make(chan error)
			go func() { put <- inbox.PutTx(t.Context(), second, event("a")) }()
			waitForLocks(t, pool, 1)
			require.NoError(t, first.Commit(t.Context()))
			require.ErrorIs(t, <-put, webhook.ErrDuplicate)
			require.NoError(t, inbox.PutTx(t.Context(), second, event("b")))
			require.NoError(t, second.Commit(t.Context()))
			require.Equal(t, 2, counts(t, inbox).Waiting)
		})
	}
}
