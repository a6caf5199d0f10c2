package lendingredis_test

import (
	"context"
	"testing"
	"time"

	"github.com/lendingapi/lending-go/internal/test/shown"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
)

// TestWhatIsAliveCanBePrinted prints and compares a store while it works. A print of the client
// would show its password, and could be a data race.
func TestWhatIsAliveCanBePrinted(t *testing.T) {
	server, _ := startRedis(t)
	client := redis.NewClient(&redis.Options{
		Network: "unix", Addr: server.Options().Addr,
		CredentialsProvider: func() (string, string) { return "", "" }, ClientName: "hush",
	})
	t.Cleanup(func() { _ = client.Close() })
	store := tokenStore(t, client, "shown")
	assert.NotContains(t, shown.Beside(t, []any{store}, func(ctx context.Context) {
		_, _ = store.Acquire(ctx, "owner", time.Second)
		_, _ = store.Load(ctx)
	}), "hush")
}
