package lendingpostgres_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	lendingpostgres "github.com/lendingapi/lending-go/contrib/postgres"
)

func tables(t *testing.T, pool *pgxpool.Pool) string {
	t.Helper()
	var names string
	require.NoError(t,
		pool.QueryRow(t.Context(), `SELECT coalesce(string_agg(schemaname || '.' || tablename, ' ' ORDER BY tablename), '')
		FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')`).Scan(&names))
	return names
}

func TestMigrateOnce(t *testing.T) {
	for _, test := range []struct {
		name string
		in   lendingpostgres.Tables
	}{
		{"public.lending_idempotency", lendingpostgres.Tables{}},
		{`odd "schema" .lending_idempotency`, lendingpostgres.Tables{Schema: `odd "schema" `}},
	} {
		pool := connect(t, database(t))
		var starting sync.WaitGroup
		for range 8 { // replicas
			starting.Go(func() { assert.NoError(t, lendingpostgres.Migrate(t.Context(), pool, &test.in)) })
		}
		starting.Wait()
		before := tables(t, pool)
		assert.Contains(t, before, test.name)
		require.NoError(t, lendingpostgres.Migrate(t.Context(), pool, &test.in))
		assert.Equal(t, before, tables(t, pool))
		test.in.Schema = "beside"
		require.NoError(t, lendingpostgres.Migrate(t.Context(), pool, &test.in))
		assert.Equal(t, 2*strings.Count(before, ".lending_"), strings.Count(tables(t, pool), ".lending_"))
	}
}

// Concurrent migrations work at every default isolation level of the database.
func TestMigrateIsolation(t *testing.T) {
	for _, level := range []string{"serializable", "repeatable read"} {
		url := database(t)
		admin := connect(t, url)
		_, err := admin.Exec(t.Context(), "ALTER DATABASE \""+admin.Config().ConnConfig.Database+
			"\" SET default_transaction_isolation = '"+level+"'")
		require.NoError(t, err)
		var starting sync.WaitGroup
		for range 8 {
			pool := connect(t, url)
			starting.Go(func() { assert.NoError(t, lendingpostgres.Migrate(t.Context(), pool, nil), level) })
		}
		starting.Wait()
	}
}

// A migration tool creates the same tables as Migrate.
func TestMigrationsAreWhatMigrateDoes(t *testing.T) {
	pool := connect(t, database(t))
	all, err := lendingpostgres.Migrations(nil)
	require.NoError(t, err)
	for _, m := range all {
		_, err := pool.Exec(t.Context(), m.SQL)
		require.NoError(t, err, "%d %s", m.Version, m.Name)
	}
	assert.Equal(t, strings.ReplaceAll(tables(t, migrated(t)), "public.lending_migration ", ""), tables(t, pool))
}

// A failed migration leaves no changes.
func TestMigrateAllOrNothing(t *testing.T) {
	pool := connect(t, database(t))
	_, err := pool.Exec(t.Context(), "CREATE TABLE lending_idempotency ()")
	require.NoError(t, err)
	require.ErrorContains(t, lendingpostgres.Migrate(t.Context(), pool, nil),
		"migration 1, token idempotency and inbox")
	assert.Equal(t, "public.lending_idempotency", tables(t, pool))
}

// Migrate does not wait long for a table that another transaction has locked: later users of the
// table would wait behind it.
func TestMigrateGivesUpItsLocks(t *testing.T) {
	pool := connect(t, database(t))
	holding, err := pool.Begin(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = holding.Rollback(context.WithoutCancel(t.Context())) })
	_, err = holding.Exec(t.Context(), "CREATE TABLE lending_inbox ()")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err = lendingpostgres.Migrate(ctx, pool, nil)
	require.ErrorContains(t, err, "lock timeout")
	require.ErrorContains(t, err, "end the transaction that has locked the table")

	migrated := make(chan error)
	go func() { migrated <- lendingpostgres.Migrate(t.Context(), pool, nil) }()
	waitForLocks(t, pool, 1)
	require.NoError(t, holding.Rollback(t.Context()))
	require.NoError(t, <-migrated)
}

func TestNamesThatCannotBe(t *testing.T) {
	pool := connect(t, database(t))
	for _, in := range []*lendingpostgres.Tables{
		{Schema: "a\x00"},
		{Schema: "\xff"},
		{Schema: strings.Repeat("s", 64)},
	} {
		t.Run(fmt.Sprintf("%q", in.Schema), func(t *testing.T) {
			_, migrations := lendingpostgres.Migrations(in)
			_, tokens := lendingpostgres.NewTokenStore(pool, "test", in)
			_, entries := lendingpostgres.NewIdempotencyStore(pool, "test",
				&lendingpostgres.IdempotencyStoreOptions{Tables: *in})
			_, inbox := lendingpostgres.NewInbox(pool, "test", &lendingpostgres.InboxOptions{Tables: *in})
			migrate := lendingpostgres.Migrate(t.Context(), pool, in)
			for _, err := range []error{migrations, tokens, entries, inbox, migrate} {
				require.ErrorContains(t, err, "must be")
				require.ErrorAs(t, err, new(*lending.ArgumentError))
			}
		})
	}
	assert.Empty(t, tables(t, pool))
}
