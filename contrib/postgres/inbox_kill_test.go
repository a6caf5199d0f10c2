package lendingpostgres_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go/internal/test/webhooktest"
	"github.com/lendingapi/lending-go/webhook"
	"github.com/stretchr/testify/require"

	lendingpostgres "github.com/lendingapi/lending-go/contrib/postgres"
)

// A prefix of the URL selects a receiver with WorkTx, or an inbox with a short lease.
const txAt, quickAt = "tx:", "quick:"

// openStore opens the store for the receivers that the tests below start.
func openStore(store string) (webhooktest.Store, error) {
	url, tx := strings.CutPrefix(store, txAt)
	url, quick := strings.CutPrefix(url, quickAt)
	lease := 3 * time.Second
	if quick {
		lease = 400 * time.Millisecond
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return webhooktest.Store{}, err
	}
	config.MaxConns = 20
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return webhooktest.Store{}, err
	}
	inbox, err := lendingpostgres.NewInbox(pool, "test", &lendingpostgres.InboxOptions{Lease: lease})
	if err != nil {
		return webhooktest.Store{}, err
	}
	opened := webhooktest.Store{Inbox: inbox}
	if tx {
		opened.Work = func(ctx context.Context, handle webhook.EventFunc, opts *webhook.WorkOptions) {
			inbox.WorkTx(ctx, func(ctx context.Context, tx pgx.Tx, event *webhook.Event) error {
				if _, err := tx.Exec(ctx, "INSERT INTO effects VALUES ($1)", event.Key()); err != nil {
					return err
				}
				return handle(ctx, event) // fails now and then
			}, opts)
		}
	}
	return opened, nil
}

// The server is killed too, and started again.
func TestNothingIsLostUnderKill(t *testing.T) {
	t.Parallel()
	url, restart := restarted(t)
	webhooktest.Kill(t, url, restart)
}

// The writes of the function are there once, however often the function was called.
func TestEffectsAreThereOnceUnderKill(t *testing.T) {
	t.Parallel()
	url, restart := restarted(t)
	pool := connect(t, url)
	webhooktest.KillExactly(t, txAt+url, restart, func() map[string]int {
		acted := map[string]int{}
		rows, err := pool.Query(t.Context(), "SELECT key, count(*) FROM effects GROUP BY key")
		require.NoError(t, err)
		var key string
		var times int
		_, err = pgx.ForEachRow(rows, []any{&key, &times}, func() error {
			acted[key] = times
			return nil
		})
		require.NoError(t, err)
		return acted
	})
}

// restarted returns the URL of a database with the tables, and a function that kills its server
// and starts it again.
func restarted(t *testing.T) (url string, restart func()) {
	t.Helper()
	cluster := runServer(t)
	url = withEffects(t, databaseIn(t, cluster))
	restarts := 0
	t.Cleanup(func() { t.Logf("PostgreSQL shut down at once and restarted %d times", restarts) })
	return url, func() {
		require.NoError(t, cluster.restart())
		restarts++
	}
}

// withEffects creates the tables, and a table for effects that has no unique constraint.
func withEffects(t *testing.T, url string) string {
	t.Helper()
	pool := connect(t, url)
	require.NoError(t, lendingpostgres.Migrate(t.Context(), pool, nil))
	_, err := pool.Exec(t.Context(), "CREATE TABLE effects (key text)")
	require.NoError(t, err)
	return url
}

// An event that ends the process becomes a dead letter, although its transaction leaves no trace.
func TestKillerIsSetAsideAndInnocentsAreNot(t *testing.T) {
	t.Parallel()
	webhooktest.Crash(t, txAt+quickAt+withEffects(t, database(t)), openStore)
}
