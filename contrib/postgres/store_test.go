package lendingpostgres_test

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/released"
	"github.com/lendingapi/lending-go/lendingtest/storetest"
	"github.com/lendingapi/lending-go/webhook"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	lendingpostgres "github.com/lendingapi/lending-go/contrib/postgres"
)

// Every store keeps its contract with only the documented rights, with prepared statements and
// behind a simulated pooler. LENDING_TEST_PGBOUNCER names a real pooler: /usr/sbin/pgbouncer.
func TestStoresKeepTheirContracts(t *testing.T) {
	const shadowing = "with functions and operators of others in the search path"
	settings := map[string]func(*pgxpool.Config){
		"prepared statements": func(*pgxpool.Config) {},
		"serializable, behind a pooler": func(c *pgxpool.Config) {
			c.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable"
			pooled(c)
		},
		shadowing: nil,
	}
	if program := os.Getenv("LENDING_TEST_PGBOUNCER"); program != "" {
		cluster, err := shared()
		require.NoError(t, err)
		host := cluster.pooler(t, program)
		settings["behind PgBouncer"] = func(c *pgxpool.Config) {
			c.ConnConfig.Host, c.ConnConfig.User, c.ConnConfig.DefaultQueryExecMode = host, superuser,
				pgx.QueryExecModeExec
		}
	}
	for name, change := range settings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := database(t)
			owner := connect(t, url)
			role := leastRights(t, owner)
			if name == shadowing {
				change = shadow(t, owner)
			}
			pool := func(t *testing.T) *pgxpool.Pool { // one for each process
				t.Helper()
				return connect(t, url, role, change)
			}
			t.Run("TokenStore", func(t *testing.T) {
				storetest.TokenStore(t, func(t *testing.T) func() lending.TokenStore {
					return func() lending.TokenStore {
						return fake.Must(lendingpostgres.NewTokenStore(pool(t), t.Name(),
							nil))
					}
				})
			})
			t.Run("IdempotencyStore", func(t *testing.T) {
				storetest.IdempotencyStore(t, func(t *testing.T) func() store.Store {
					return func() store.Store {
						return fake.Must(lendingpostgres.NewIdempotencyStore(pool(t), t.Name(),
							nil))
					}
				})
			})
			t.Run("Inbox", func(t *testing.T) {
				storetest.Inbox(t, func(t *testing.T, lease time.Duration) func() webhook.Inbox {
					return func() webhook.Inbox {
						return fake.Must(lendingpostgres.NewInbox(pool(t), t.Name(),
							&lendingpostgres.InboxOptions{Lease: lease, Encryption: released.Encryption()}))
					}
				})
			})
		})
	}
}

// pooled simulates a pooler that gives each transaction any connection, without prepared
// statements, settings or locks of the last transaction.
func pooled(config *pgxpool.Config) {
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	config.AfterRelease = func(conn *pgx.Conn) bool {
		_, err := conn.Exec(context.Background(), "DISCARD ALL")
		return err == nil && rand.N(4) > 0
	}
}

// leastRights creates the tables and a role with the documented rights. It returns a function
// that makes a pool use the role.
func leastRights(t *testing.T, pool *pgxpool.Pool) func(*pgxpool.Config) {
	t.Helper()
	require.NoError(t, lendingpostgres.Migrate(t.Context(), pool, nil))
	documentation, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	role := pool.Config().ConnConfig.Database // a name of its own in the cluster
	_, err = pool.Exec(t.Context(), "CREATE ROLE "+role+
		" LOGIN; REVOKE ALL ON SCHEMA public FROM PUBLIC; GRANT USAGE ON SCHEMA public TO "+role)
	require.NoError(t, err)
	grants := regexp.MustCompile(`(?m)^//\t(GRANT .* TO) replica;`).FindAllStringSubmatch(string(documentation), -1)
	require.NotEmpty(t, grants)
	for _, grant := range grants {
		_, err := pool.Exec(t.Context(), grant[1]+" "+role)
		require.NoError(t, err)
	}
	return func(c *pgxpool.Config) { c.ConnConfig.User = role }
}

// The documented rights are enough for every store, and grant nothing else.
func TestLeastRights(t *testing.T) {
	url := database(t)
	owner := connect(t, url)
	role := leastRights(t, owner)
	pool := connect(t, url, role)
	require.NoError(t, lendingpostgres.Migrate(t.Context(), pool, nil), "nothing is to be done")
	s := storesOf(pool)
	s.each(t, 1, func() {})
	for _, refused := range []string{
		"TRUNCATE lending_idempotency", "DELETE FROM lending_token",
		"CREATE TABLE t ()", "ALTER TABLE lending_idempotency ADD more int",
		"UPDATE lending_migration SET version = 1",
	} {
		_, err := pool.Exec(t.Context(), refused)
		require.ErrorContains(t, err, "42501", refused)
	}
	_, err := owner.Exec(t.Context(), "DROP TABLE lending_migration")
	require.NoError(t, err)
	require.ErrorContains(t, lendingpostgres.Migrate(t.Context(), pool, nil), "42501")
}

// Fences start at the time. They rise even if the row is lost or the clock is set back.
func TestTokenStoreFencesRise(t *testing.T) {
	pool := migrated(t)
	entries := storesOf(pool).token
	first, err := entries.Acquire(t.Context(), "a", time.Minute)
	require.NoError(t, err)
	assert.InDelta(t, time.Now().UnixMicro(), first, float64(time.Minute.Microseconds()), "a fence begins at the time")
	_, err = pool.Exec(t.Context(), "DELETE FROM lending_token")
	require.NoError(t, err)
	next, err := entries.Acquire(t.Context(), "b", time.Minute)
	require.NoError(t, err)
	assert.Greater(t, next, first)

	const exact = 1<<62 + 1 // no floating point has it
	_, err = pool.Exec(t.Context(), "UPDATE lending_token SET owner = NULL, lease = $1", int64(exact))
	require.NoError(t, err)
	next, err = entries.Acquire(t.Context(), "c", time.Minute)
	require.NoError(t, err)
	assert.EqualValues(t, exact+1, next)
	require.NoError(t, entries.Save(t.Context(), stored(exact+2, "a token")))
	require.ErrorIs(t, entries.Save(t.Context(), stored(exact+1, "an older one")), lending.ErrFenced)
	token, err := entries.Load(t.Context())
	require.NoError(t, err)
	assert.EqualValues(t, exact+2, token.Fence)
}

// The next fence is higher even if the row is lost, its holder saves, and the clock is behind.
func TestTokenStoreFenceAboveThatOfTheToken(t *testing.T) {
	entries := storesOf(migrated(t)).token
	require.NoError(t, entries.Save(t.Context(), stored(1<<62, "a token")))
	next, err := entries.Acquire(t.Context(), "a", time.Minute)
	require.NoError(t, err)
	require.Greater(t, next, int64(1<<62))
}

func TestTokenStoreClockWasAhead(t *testing.T) {
	pool := migrated(t)
	entries := storesOf(pool).token
	_, err := entries.Acquire(t.Context(), "gone", 100*time.Millisecond)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), "UPDATE lending_token SET lease_ends = lease_ends + interval '1 hour'")
	require.NoError(t, err)
	start := time.Now()
	_, err = entries.Acquire(t.Context(), "next", time.Minute)
	require.ErrorIs(t, err, lending.ErrLeaseHeld, "its owner may live")
	require.Eventually(t, func() bool {
		_, err = entries.Acquire(t.Context(), "next", time.Minute)
		return err == nil
	}, time.Minute, 5*time.Millisecond)
	assert.GreaterOrEqual(t, time.Since(start), 100*time.Millisecond)
}

// waitForLocks waits until some statements wait for a lock.
func waitForLocks(t *testing.T, pool *pgxpool.Pool, statements int) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	for waiting := 0; waiting < statements; {
		require.NoError(t, pool.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waiting))
	}
}

// A lease lasts from the moment it was given, however long the caller waited for the row.
func TestLeaseBeginsWhenItIsGiven(t *testing.T) {
	pool := migrated(t)
	entries := storesOf(pool).token
	_, err := entries.Acquire(t.Context(), "a", time.Minute)
	require.NoError(t, err)
	require.NoError(t, entries.Release(t.Context(), "a"))
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "UPDATE lending_token SET data = data")
	require.NoError(t, err)
	acquired := make(chan error)
	go func() {
		_, err := entries.Acquire(t.Context(), "b", time.Second)
		acquired <- err
	}()
	waitForLocks(t, pool, 1)
	var released time.Time
	require.NoError(t, tx.QueryRow(t.Context(), "SELECT clock_timestamp()").Scan(&released))
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, <-acquired)
	var given time.Time
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT lease_ends - lease_lasts FROM lending_token").Scan(&given))
	assert.GreaterOrEqual(t, given, released)
}

// A clock that is set back makes no entry older, and hides no entry.
func TestIdempotencyClockSetBack(t *testing.T) {
	pool := migrated(t)
	entries := storesOf(pool).idempotency
	for _, key := range []string{"a", "b"} {
		require.NoError(t, entries.Save(t.Context(), sent(key, "")))
	}
	_, err := pool.Exec(t.Context(),
		"UPDATE lending_idempotency SET saved_at = saved_at + interval '1 hour' WHERE key = 'a'")
	require.NoError(t, err)
	kept, err := entries.Load(t.Context(), "a")
	require.NoError(t, err)
	assert.Zero(t, kept.Age)
	filter := store.Filter{States: []store.State{store.Sent, store.Sent}, Limit: 10}
	listed, err := entries.List(t.Context(), filter)
	require.NoError(t, err)
	assert.Len(t, listed, 2)
	filter.Older = math.MaxInt64 // of a log that forgets no answers
	listed, err = entries.List(t.Context(), filter)
	require.NoError(t, err)
	assert.Empty(t, listed)
	filter.Older = time.Nanosecond
	listed, err = entries.List(t.Context(), filter)
	require.NoError(t, err)
	assert.Len(t, listed, 1)
}
