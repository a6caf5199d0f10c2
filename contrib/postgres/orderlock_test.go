package lendingpostgres_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/orders"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	lendingpostgres "github.com/lendingapi/lending-go/contrib/postgres"
)

// lockPools are the ways of a replica to PostgreSQL.
func lockPools(t *testing.T) map[string]func(*pgxpool.Config) {
	t.Helper()
	pools := map[string]func(*pgxpool.Config){"PostgreSQL": func(*pgxpool.Config) {}}
	program := os.Getenv("LENDING_TEST_PGBOUNCER")
	if found, err := exec.LookPath("pgbouncer"); program == "" && err == nil {
		program = found
	}
	if program != "" {
		cluster, err := shared()
		skipWithoutServer(t, err)
		require.NoError(t, err)
		host := cluster.pooler(t, program)
		pools["PgBouncer in transaction mode"] = func(c *pgxpool.Config) {
			c.ConnConfig.Host, c.ConnConfig.User, c.ConnConfig.DefaultQueryExecMode = host, superuser, pgx.QueryExecModeExec
		}
	}
	return pools
}

// TestOrderIsLockedOnce has two replicas lock orders.
func TestOrderIsLockedOnce(t *testing.T) {
	t.Parallel()
	for name, change := range lockPools(t) {
		t.Run(name, func(t *testing.T) {
			url := database(t)
			lockOf := func(name string) *lendingpostgres.OrderLock {
				return fake.Must(lendingpostgres.NewOrderLock(connect(t, url, change), name))
			}
			first, second, foreign := lockOf("shop"), lockOf("shop"), lockOf("other")
			unlock := fake.Must(first.Lock(t.Context(), "order-1"))
			for range 20 { // a pooler changes the session
				_, err := second.Lock(t.Context(), "order-1")
				require.ErrorIs(t, err, orders.ErrBusy)
			}
			_, err := first.Lock(t.Context(), "order-1")
			require.ErrorIs(t, err, orders.ErrBusy, "another step of the same replica")
			fake.Must(second.Lock(t.Context(), "order-2"))()
			fake.Must(foreign.Lock(t.Context(), "order-1"))()
			unlock()
			fake.Must(second.Lock(t.Context(), "order-1"))()
		})
	}
}

// TestOrderLockEndsWithItsConnection has a replica die in a step, and a step outlive its connection.
func TestOrderLockEndsWithItsConnection(t *testing.T) {
	t.Parallel()
	url := database(t)
	admin := connect(t, url)
	first := fake.Must(lendingpostgres.NewOrderLock(connect(t, url), "shop"))
	second := fake.Must(lendingpostgres.NewOrderLock(connect(t, url), "shop"))
	unlock := fake.Must(first.Lock(t.Context(), "order-1"))
	_, err := admin.Exec(t.Context(), `SELECT pg_terminate_backend(pid, 10000) FROM pg_locks WHERE locktype = 'advisory'
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
	require.NoError(t, err)
	fake.Must(second.Lock(t.Context(), "order-1"))()
	unlock()
	fake.Must(first.Lock(t.Context(), "order-1"))()
	_, err = admin.Exec(t.Context(), `SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid()`)
	require.NoError(t, err)
	fake.Must(first.Lock(t.Context(), "order-1"))() // the pool has a connection that has ended
}

// TestOrderLockDelaysNothing has a server end idle transactions early, and looks at the transaction of
// a lock, which an isolation level of the server does not change.
func TestOrderLockDelaysNothing(t *testing.T) {
	t.Parallel()
	url := database(t)
	admin := connect(t, url)
	pool := connect(t, url, func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = "1ms"
		c.ConnConfig.RuntimeParams["default_transaction_isolation"] = "repeatable read"
	})
	lock := fake.Must(lendingpostgres.NewOrderLock(pool, "shop"))
	unlock := fake.Must(lock.Lock(t.Context(), "order-1"))
	var held, delays int
	row := admin.QueryRow(t.Context(), `SELECT count(*), count(coalesce(backend_xmin, backend_xid))
		FROM pg_stat_activity, pg_sleep(0.3) WHERE datname = current_database() AND state = 'idle in transaction'`)
	require.NoError(t, row.Scan(&held, &delays))
	assert.Equal(t, []int{1, 0}, []int{held, delays})
	_, err := lock.Lock(t.Context(), "order-1")
	require.ErrorIs(t, err, orders.ErrBusy)
	unlock()
}

// TestOrderLockLeavesConnections has the steps of eight orders use a pool of three connections.
func TestOrderLockLeavesConnections(t *testing.T) {
	t.Parallel()
	pool := connect(t, database(t), func(c *pgxpool.Config) { c.MaxConns = 3 })
	lock := fake.Must(lendingpostgres.NewOrderLock(pool, "shop"))
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	var done atomic.Int64
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			unlock, err := lock.Lock(ctx, fmt.Sprint("order-", i))
			if !assert.NoError(t, err) {
				return
			}
			defer unlock()
			if _, err := pool.Exec(ctx, "SELECT pg_sleep(0.01)"); assert.NoError(t, err) {
				done.Add(1)
			}
		})
	}
	group.Wait()
	assert.EqualValues(t, 8, done.Load())
	unlock := fake.Must(lock.Lock(ctx, "order-1"))
	soon, end := context.WithTimeout(ctx, 10*time.Millisecond)
	defer end()
	_, err := lock.Lock(soon, "order-2")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	unlock()
}
