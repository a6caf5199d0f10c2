package lendingriver_test

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go/internal/test/pgtest"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if cluster != nil {
		cluster.Close()
	}
	os.Exit(code)
}

var cluster *pgtest.Cluster // nil until it is needed

// startOnce starts a cluster with River's tables. The tests leave no rows there.
var startOnce = sync.OnceValue(func() (err error) {
	if cluster, err = pgtest.New(); err != nil {
		return err
	}
	return migrate(context.Background(), cluster.URL("postgres"))
})

func migrate(ctx context.Context, url string) error {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err != nil {
		return err
	}
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

func connect(t *testing.T) *pgxpool.Pool {
	t.Helper()
	err := startOnce()
	if errors.Is(err, pgtest.ErrMissing) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	require.NoError(t, err)
	pool, err := pgxpool.New(t.Context(), cluster.URL("postgres"))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}
