package lendingredis_test

import (
	"context"
	"testing"

	"github.com/lendingapi/lending-go/internal/test/shown"
	"github.com/lendingapi/lending-go/internal/test/webhooktest"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	lendingredis "github.com/lendingapi/lending-go/contrib/redis"
)

// TestWhatIsAliveCanBePrinted prints and compares stores while they work. A print without a lock
// would be a data race, or end the process with "concurrent map iteration and map write". A print
// of the client would show its password.
func TestWhatIsAliveCanBePrinted(t *testing.T) {
	server := startRedis(t)
	client := redis.NewClient(&redis.Options{
		Network: "unix", Addr: server.address(),
		CredentialsProvider: func() (string, string) { return "", "" }, ClientName: "hush",
	})
	t.Cleanup(func() { _ = client.Close() })
	inbox, err := lendingredis.NewInbox(t.Context(), client, "shown", nil)
	require.NoError(t, err)

	alive := []any{
		inbox, tokenStore(t, client, "shown"), storeOf(client, "shown"),
	}
	assert.NotContains(t, shown.Beside(t, alive, func(ctx context.Context) {
		_ = webhooktest.PutNumbered(ctx, inbox)
		_ = webhooktest.TakeAndEnd(ctx, inbox)
	}), "hush")
}
