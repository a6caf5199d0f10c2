package lendingpostgres_test

import (
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	lendingpostgres "github.com/lendingapi/lending-go/contrib/postgres"
)

// shared is the cluster of all tests that do not stop it. Each test has a database of its own.
var shared = sync.OnceValues(func() (cluster *server, err error) {
	cluster, err = newServer("max_connections=200")
	if err == nil {
		endShared = cluster.remove
	}
	return cluster, err
})

var endShared = func() {}

// database returns the URL of an empty database in the shared cluster.
func database(tb testing.TB) string {
	tb.Helper()
	cluster, err := shared()
	skipWithoutServer(tb, err)
	require.NoError(tb, err)
	return databaseIn(tb, cluster)
}

func databaseIn(tb testing.TB, cluster *server) string {
	tb.Helper()
	url, err := cluster.database(tb.Name())
	require.NoError(tb, err)
	return url
}

// connect returns a pool of its own, as in a separate process.
func connect(tb testing.TB, url string, change ...func(*pgxpool.Config)) *pgxpool.Pool {
	tb.Helper()
	config, err := pgxpool.ParseConfig(url)
	require.NoError(tb, err)
	for _, change := range change {
		change(config)
	}
	pool, err := pgxpool.NewWithConfig(tb.Context(), config)
	require.NoError(tb, err)
	tb.Cleanup(pool.Close)
	return pool
}

// migrated returns a pool of a database with the tables.
func migrated(tb testing.TB, change ...func(*pgxpool.Config)) *pgxpool.Pool {
	tb.Helper()
	return migratedIn(tb, nil, change...)
}

func migratedIn(tb testing.TB, in *lendingpostgres.Tables, change ...func(*pgxpool.Config)) *pgxpool.Pool {
	tb.Helper()
	pool := connect(tb, database(tb), change...)
	require.NoError(tb, lendingpostgres.Migrate(tb.Context(), pool, in))
	return pool
}

// migratedURL creates the tables in a database, and returns its URL.
func migratedURL(tb testing.TB, url string) string {
	tb.Helper()
	require.NoError(tb, lendingpostgres.Migrate(tb.Context(), connect(tb, url), nil))
	return url
}
