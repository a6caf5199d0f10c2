package lendingredis_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/lendingapi/lending-go/internal/test/idempotencytest"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// BenchmarkIdempotency sends mutations with a key. The floor is the mutation itself with two SETs
// in the same Redis.
func BenchmarkIdempotency(b *testing.B) {
	for _, sync := range []string{"always", "everysec"} {
		b.Run("appendfsync="+sync, func(b *testing.B) {
			server, err := newServer("--appendonly", "yes", "--appendfsync", sync)
			require.NoError(b, err)
			defer server.remove()
			require.NoError(b, server.run(b.Context()))
			client := server.client()
			defer client.Close()
			idempotencytest.Benchmark(b, storeOf(client, "bench"),
				func(key string, data []byte) error {
					return client.Set(b.Context(), "floor:"+key, data, 0).Err()
				})
		})
	}
}

func BenchmarkSweep(b *testing.B) {
	server, err := newServer("--appendonly", "yes", "--appendfsync", "always")
	require.NoError(b, err)
	defer server.remove()
	require.NoError(b, server.run(b.Context()))
	client := redis.NewClient(&redis.Options{Addr: server.address(), PoolSize: 64, ReadTimeout: time.Minute})
	defer client.Close()
	idempotencytest.BenchmarkSweep(b, storeOf(client, "bench"), func() (used int64) {
		info, _ := client.InfoMap(b.Context(), "memory").Result()
		_, _ = fmt.Sscan(info["Memory"]["used_memory_dataset"], &used)
		return used
	})
}
