package lendingredis_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/longrun"
	"github.com/lendingapi/lending-go/internal/test/webhooktest"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	lendingredis "github.com/lendingapi/lending-go/contrib/redis"
)

func TestNothingIsLostWhenARedriveIsKilled(t *testing.T) {
	longrun.Kills(t)
	t.Parallel()
	webhooktest.KillRedrive(t, startRedis(t).address(), func(address string) (webhooktest.Store, error) {
		inbox, err := lendingredis.NewInbox(t.Context(), newRedis(address), "test", nil)
		return webhooktest.Store{Inbox: inbox}, err
	})
}

// Redis has 100,000 dead letters. No call reads all of them into memory.
func TestManyDeadLetters(t *testing.T) {
	const number = 100_000
	client := startRedis(t).client()
	inbox, padding := inbox(t, client, nil), strings.Repeat("x", 200)
	for first := 0; first < number; first += 5000 {
		_, err := client.Pipelined(t.Context(), func(pipe redis.Pipeliner) error {
			for n := first; n < first+5000; n++ {
				name := lending.EventLoanOpened
				if n%2 == 1 {
					name = lending.EventLoanClosed
				}
				pipe.XAdd(t.Context(), &redis.XAddArgs{Stream: "{test}:dead-letters", Values: []any{
					"letter", fmt.Sprintf(`{"key":"%064d","event":%q,"cause":"a failure"}`, n, name),
					"body", fmt.Sprintf(`{"webhookEvent":%q,"data":{"n":%d,"text":%q}}`, name, n, padding),
				}})
			}
			return nil
		})
		require.NoError(t, err)
	}
	webhooktest.ManyDeadLetters(t, inbox, number)
}

func TestInboxWithoutRedisIsNotReady(t *testing.T) {
	server := startRedis(t)
	inbox := inbox(t, server.client(), nil)
	require.NoError(t, inbox.Ready(t.Context()))
	server.kill()
	err := inbox.Ready(t.Context())
	require.ErrorContains(t, err, "lendingredis: the inbox is not ready: ")
	require.ErrorContains(t, err, "; check Redis and the connection")
	_, err = inbox.Ages(t.Context())
	require.Error(t, err)
}
