package lendingpostgres_test

import (
	"testing"

	"github.com/lendingapi/lending-go/internal/test/idempotencytest"
	"github.com/lendingapi/lending-go/internal/test/pgtest"
	"github.com/stretchr/testify/require"

	lendingpostgres "github.com/lendingapi/lending-go/contrib/postgres"
)

// BenchmarkIdempotency sends mutations with a key. The floor is the mutation itself with two
// INSERTs or UPDATEs by hand, in the same database.
func BenchmarkIdempotency(b *testing.B) {
	for _, sync := range []string{"on", "off"} {
		b.Run("synchronous_commit="+sync, func(b *testing.B) {
			pool := connect(b, databaseIn(b, pgtest.Run(b, "fsync=on", "synchronous_commit="+sync)))
			require.NoError(b, lendingpostgres.Migrate(b.Context(), pool, nil))
			_, err := pool.Exec(b.Context(), "CREATE TABLE floor (key text PRIMARY KEY, data bytea NOT NULL)")
			require.NoError(b, err)
			idempotencytest.Benchmark(b, must(lendingpostgres.NewIdempotencyStore(pool, "bench", nil)),
				func(key string, data []byte) error {
					_, err := pool.Exec(b.Context(),
						"INSERT INTO floor VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET data = excluded.data", key,
						data)
					return err
				})
		})
	}
}

func BenchmarkSweep(b *testing.B) {
	pool := connect(b, databaseIn(b, pgtest.Run(b, "fsync=on")))
	require.NoError(b, lendingpostgres.Migrate(b.Context(), pool, nil))
	idempotencytest.BenchmarkSweep(b, must(lendingpostgres.NewIdempotencyStore(pool, "bench", nil)), func() (size int64) {
		_, err := pool.Exec(b.Context(), "VACUUM FULL lending_idempotency")
		require.NoError(b, err)
		row := pool.QueryRow(b.Context(), "SELECT pg_total_relation_size('lending_idempotency')")
		require.NoError(b, row.Scan(&size))
		return size
	})
}
