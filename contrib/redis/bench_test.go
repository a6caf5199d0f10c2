package lendingredis_test

import (
	"testing"

	"github.com/lendingapi/lending-go/internal/test/idempotencytest"
	"github.com/stretchr/testify/require"

	lendingredis "github.com/lendingapi/lending-go/contrib/redis"
)

// BenchmarkIdempotency sends mutations with a key. The floor beside the command is two SETs, in
// the same Redis.
func BenchmarkIdempotency(b *testing.B) {
	for _, sync := range []string{"always", "everysec"} {
		b.Run("appendfsync="+sync, func(b *testing.B) {
			server, err := newServer("--appendonly", "yes", "--appendfsync", sync)
			require.NoError(b, err)
			defer server.remove()
			require.NoError(b, server.run(b.Context()))
			client := server.client()
			defer client.Close()
			idempotencytest.Benchmark(b, lendingredis.NewIdempotencyStore(client, "bench"),
				func(key string, data []byte) error {
					return client.Set(b.Context(), "floor:"+key, data, 0).Err()
				})
		})
	}
}
