//go:build unix

package lendingredis_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// Redis hangs. The calls return at the end of their context.
func TestIdempotencyReturnsWhileRedisHangs(t *testing.T) {
	server := startRedis(t)
	client := redis.NewClient(&redis.Options{
		Addr: server.address(), ContextTimeoutEnabled: true,
		ReadTimeout: time.Hour, // longer than the tests may take
	})
	entries := log(t, client)
	require.NoError(t, entries.Save(t.Context(), sent("a", "")))
	require.NoError(t, server.process.Process.Signal(syscall.SIGSTOP))
	for _, call := range []func(ctx context.Context) error{
		func(ctx context.Context) error { return entries.Save(ctx, sent("b", "")) },
		func(ctx context.Context) error { _, err := entries.Load(ctx, "a"); return err },
		func(ctx context.Context) error {
			_, err := entries.List(ctx, store.Filter{States: []store.State{store.Sent}, Limit: 1})
			return err
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		require.Error(t, call(ctx))
		cancel()
	}
	require.NoError(t, server.process.Process.Signal(syscall.SIGCONT))
	require.Eventually(t, func() bool { _, err := entries.Load(t.Context(), "a"); return err == nil }, time.Minute,
		10*time.Millisecond)
}
