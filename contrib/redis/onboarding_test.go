package lendingredis_test

import (
	"testing"

	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/longrun"
	"github.com/lendingapi/lending-go/internal/test/onboardingtest"

	lendingredis "github.com/lendingapi/lending-go/contrib/redis"
)

func openForWorker(address string) (store.Store, func() error, error) {
	client := newRedis(address)
	entries, err := lendingredis.NewIdempotencyStore(client, "test", nil)
	return entries, client.Close, err
}

// Mutations with keys happen once, however often the worker and Redis are killed.
func TestMutationsAreDoneOnceUnderKill(t *testing.T) {
	longrun.Kills(t)
	server := startRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	restarts := 0
	onboardingtest.Kill(t, server.address(), onboardingtest.How{Replicas: 2, Between: func() {
		server.kill()
		server.start(t)
		restarts++
	}})
	t.Logf("Redis killed and restarted %d times", restarts)
}
