package lendingpostgres_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/longrun"
	"github.com/lendingapi/lending-go/internal/test/onboardingtest"
	"github.com/stretchr/testify/require"

	lendingpostgres "github.com/lendingapi/lending-go/contrib/postgres"
)

// Mutations with keys happen once, however often the worker and PostgreSQL are killed.
// Two replicas carry the orders out as in AGENTS.md, in a long run 240 orders.
func TestMutationsAreDoneOnceUnderKill(t *testing.T) {
	killWorkers(t, onboardingtest.How{Replicas: 2}, nil)
}

// The same, while the fleet changes from the build of the last release to that of today. CONTRIBUTING
// tells how to choose another commit.
func TestMutationsAreDoneOnceByTwoBuilds(t *testing.T) {
	longrun.Kills(t)
	killWorkers(t, onboardingtest.How{Replicas: 2, Earlier: earlier(t)}, nil)
}

// The same, while the service moves: one replica after the other uses the new address.
func TestMutationsAreDoneOnceInAMove(t *testing.T) {
	longrun.Kills(t)
	killWorkers(t, onboardingtest.How{Replicas: 2, Moves: true}, nil)
}

// The same with a single replica, while the database is restored from a dump again and again: docs/second-year.md.
func TestMutationsAreDoneOnceInARestoredLog(t *testing.T) {
	longrun.Kills(t)
	restores, copied := 0, time.Time{}
	killWorkers(t, onboardingtest.How{Replicas: 1}, func(cluster *server, url string) {
		ctx := t.Context()
		dump := filepath.Join(cluster.directory, "dump")
		if copied.IsZero() {
			copied = time.Now()
			require.NoError(t, run(cluster.command("pg_dump", "-Fc", "-f", dump, url)))
			return
		}
		name := fake.Must(pgx.ParseConfig(url)).Database
		restores++
		require.NoError(t, cluster.do(fmt.Sprintf("ALTER DATABASE %s RENAME TO damaged_%d", name, restores)))
		require.NoError(t, cluster.do("CREATE DATABASE "+name))
		require.NoError(t, run(cluster.command("pg_restore", "-d", url, dump)))
		pool := connect(t, url)
		defer pool.Close()
		log := fake.Must(idempotency.NewLog(fake.Must(lendingpostgres.NewIdempotencyStore(pool, "test", nil)), nil))
		require.NoError(t, log.Restored(ctx, idempotency.Restoration{By: "the trial", Copy: copied, Claim: true}))
		require.NoError(t, log.Resume(ctx))
		copied = time.Time{}
	})
	t.Logf("the log restored %d times", restores)
}

// killWorkers kills workers and PostgreSQL, and calls between after each restart.
func killWorkers(t *testing.T, how onboardingtest.How, between func(cluster *server, url string)) {
	t.Helper()
	cluster := runServer(t)
	url := migratedURL(t, databaseIn(t, cluster))
	restarts := 0
	how.Between = func() {
		require.NoError(t, cluster.restart())
		if restarts++; between != nil {
			between(cluster, url)
		}
	}
	how.Open = openForWorker
	onboardingtest.Kill(t, url, how)
	t.Logf("PostgreSQL killed and restarted %d times", restarts)
}

// openForWorker opens the store of a process in the kill test of the log.
func openForWorker(url string) (o onboardingtest.Opened, err error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return o, err
	}
	config.MaxConns = onboardingtest.Concurrency + 2
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return o, err
	}
	o.Store = fake.Must(lendingpostgres.NewIdempotencyStore(pool, "test", nil))
	o.Lock = fake.Must(lendingpostgres.NewOrderLock(pool, "test")).Lock
	o.Close = func() error { pool.Close(); return nil }
	return o, nil
}
