//go:build unix

package lendingpostgres_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/fleettest"
	"github.com/lendingapi/lending-go/internal/test/pgtest"
	"github.com/stretchr/testify/require"

	lendingpostgres "github.com/lendingapi/lending-go/contrib/postgres"
)

const tokenKey = "lending:token"

func openForReplica(url string) (lending.TokenStore, error) {
	pool, err := pgxpool.New(context.Background(), url)
	return must(lendingpostgres.NewTokenStore(pool, tokenKey, nil)), err
}

// Four processes share a sign-in, and a refresh for each lifetime of the token. Meanwhile the
// server is killed and restarted, and a process stops in the middle of a refresh.
func TestFleet(t *testing.T) {
	cluster := pgtest.Run(t) // not beside others: its steps have times
	url := databaseIn(t, cluster)
	pool := connect(t, url)
	name := pool.Config().ConnConfig.Database
	require.NoError(t, lendingpostgres.Migrate(t.Context(), pool, nil))
	do := func(statement string) { require.NoError(t, cluster.Do("postgres", statement)) }
	fleettest.Run(t, 4, fleettest.Store{
		Name: url, Local: must(lendingpostgres.NewTokenStore(pool, tokenKey, nil)),
		Empty: func() {
			_, err := pool.Exec(t.Context(), "DELETE FROM lending_token")
			require.NoError(t, err)
		},
		Kill: cluster.Kill, Start: func() { require.NoError(t, cluster.Start()) },
		// A server may need longer to start than the token has left.
		Away: func() {
			do("ALTER DATABASE " + name + " ALLOW_CONNECTIONS false")
			do("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '" + name + "'")
		},
		Back: func() { do("ALTER DATABASE " + name + " ALLOW_CONNECTIONS true") },
	})
}
