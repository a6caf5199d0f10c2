package lendingpostgres_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	lendingpostgres "github.com/lendingapi/lending-go/contrib/postgres"
)

func tables(t *testing.T, pool *pgxpool.Pool) string {
	t.Helper()
	var names string
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT coalesce(string_agg(schemaname || '.' || tablename, ' ' ORDER BY tablename), '')
		FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')`).Scan(&names))
	return names
}

func TestMigrateOnce(t *testing.T) {
	for name, opts := range map[string][]lendingpostgres.Option{
		"public.lending_idempotency":   nil,
		`odd "schema" .x_1idempotency`: {lendingpostgres.WithSchema(`odd "schema" `), lendingpostgres.WithPrefix("x_1")},
		"public.idempotency":           {lendingpostgres.WithPrefix("")},
	} {
		pool := connect(t, database(t))
		var starting sync.WaitGroup
		for range 8 { // replicas
			starting.Go(func() { assert.NoError(t, lendingpostgres.Migrate(t.Context(), pool, opts...)) })
		}
		starting.Wait()
		before := tables(t, pool)
		assert.Contains(t, before, name)
		require.NoError(t, lendingpostgres.Migrate(t.Context(), pool, opts...))
		assert.Equal(t, before, tables(t, pool))
		require.NoError(t, lendingpostgres.Migrate(t.Context(), pool, append(opts, lendingpostgres.WithPrefix("beside_"))...))
		assert.Len(t, strings.Fields(strings.ReplaceAll(tables(t, pool), " .", ".")), 2*len(strings.Fields(strings.ReplaceAll(before, " .", "."))))
	}
}

// Replicas that start together do not mind what a transaction is by default in the database.
func TestMigrateIsolation(t *testing.T) {
	for _, level := range []string{"serializable", "repeatable read"} {
		url := database(t)
		admin := connect(t, url)
		_, err := admin.Exec(t.Context(), "ALTER DATABASE \""+admin.Config().ConnConfig.Database+"\" SET default_transaction_isolation = '"+level+"'")
		require.NoError(t, err)
		var starting sync.WaitGroup
		for range 8 {
			pool := connect(t, url)
			starting.Go(func() { assert.NoError(t, lendingpostgres.Migrate(t.Context(), pool), level) })
		}
		starting.Wait()
	}
}

// What a tool of the caller's runs makes the same tables.
func TestMigrationsAreWhatMigrateDoes(t *testing.T) {
	pool := connect(t, database(t))
	all, err := lendingpostgres.Migrations()
	require.NoError(t, err)
	for _, m := range all {
		_, err := pool.Exec(t.Context(), m.SQL)
		require.NoError(t, err, "%d %s", m.Version, m.Name)
	}
	assert.Equal(t, strings.ReplaceAll(tables(t, migrated(t)), "public.lending_migration ", ""), tables(t, pool))
}

// A migration that fails leaves nothing.
func TestMigrateAllOrNothing(t *testing.T) {
	pool := connect(t, database(t))
	_, err := pool.Exec(t.Context(), "CREATE TABLE lending_idempotency ()")
	require.NoError(t, err)
	require.ErrorContains(t, lendingpostgres.Migrate(t.Context(), pool), "migration 1, token deduper and idempotency")
	assert.Equal(t, "public.lending_idempotency", tables(t, pool))
}

func TestNamesThatCannotBe(t *testing.T) {
	pool := connect(t, database(t))
	for _, opt := range []lendingpostgres.Option{
		lendingpostgres.WithSchema(""), lendingpostgres.WithSchema("a\x00"), lendingpostgres.WithSchema(strings.Repeat("s", 64)),
		lendingpostgres.WithPrefix("A"), lendingpostgres.WithPrefix("1"), lendingpostgres.WithPrefix("a.b"), lendingpostgres.WithPrefix(strings.Repeat("p", 33)),
	} {
		_, err := lendingpostgres.Migrations(opt)
		require.ErrorContains(t, err, "must be")
		require.ErrorContains(t, lendingpostgres.Migrate(t.Context(), pool, opt), "must be")
	}
	assert.Empty(t, tables(t, pool))
}
