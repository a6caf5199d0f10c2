package lendingredis_test

import (
	"testing"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest/storetest"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	lendingredis "github.com/lendingapi/lending-go/contrib/redis"
)

func stored(fence int64, text string) lending.StoredToken {
	return lending.StoredToken{Fence: fence, Data: lending.NewSecret(text)}
}

func TestTokenStoreKeepsItsContract(t *testing.T) {
	client, _ := startRedis(t)
	storetest.TokenStore(t, func(t *testing.T) func() lending.TokenStore {
		return func() lending.TokenStore { return tokenStore(t, client, t.Name()) }
	})
}

func tokenStore(t *testing.T, client redis.UniversalClient, key string) *lendingredis.TokenStore {
	t.Helper()
	store, err := lendingredis.NewTokenStore(client, key)
	require.NoError(t, err)
	return store
}

func TestTokenStoreNeedsAClientAndAKey(t *testing.T) {
	_, err := lendingredis.NewTokenStore(nil, "lending:token")
	require.ErrorContains(t, err, "needs a client and a key")
	_, err = lendingredis.NewTokenStore(redis.NewClient(&redis.Options{}), "")
	require.ErrorContains(t, err, "needs a client and a key")
}

func TestTokenStoreFencesRiseAfterALossOfData(t *testing.T) {
	ctx := t.Context()
	client, _ := startRedis(t)
	store := tokenStore(t, client, "lending:token")
	first, err := store.Acquire(ctx, "a", time.Minute)
	require.NoError(t, err)
	assert.InDelta(t, time.Now().UnixMicro(), first, float64(time.Minute.Microseconds()), "a fence begins at the time")
	require.NoError(t, client.FlushAll(ctx).Err())
	next, err := store.Acquire(ctx, "b", time.Minute)
	require.NoError(t, err)
	assert.Greater(t, next, first)
}

func TestTokenStoreClockWasAhead(t *testing.T) {
	ctx := t.Context()
	client, _ := startRedis(t)
	store := tokenStore(t, client, "lending:token")
	_, err := store.Acquire(ctx, "gone", time.Minute)
	require.NoError(t, err)
	const shorter = 100_000 // microseconds; the key outlives it
	require.NoError(t, client.HSet(ctx, "lending:token", "ttl", shorter).Err())
	require.NoError(t, client.HIncrBy(ctx, "lending:token", "until", time.Hour.Microseconds()).Err())
	require.NoError(t, client.Persist(ctx, "lending:token").Err())
	start := time.Now()
	_, err = store.Acquire(ctx, "next", time.Minute)
	require.ErrorIs(t, err, lending.ErrLeaseHeld, "its owner may live")
	require.Eventually(t, func() bool {
		_, err = store.Acquire(ctx, "next", time.Minute)
		return err == nil
	}, time.Minute, 5*time.Millisecond)
	assert.GreaterOrEqual(t, time.Since(start), 100*time.Millisecond)
}

func TestTokenStoreKeyExpires(t *testing.T) {
	ctx := t.Context()
	client, _ := startRedis(t)
	store := tokenStore(t, client, "lending:token")
	left := func() float64 { return client.PTTL(ctx, "lending:token").Val().Seconds() }
	fence, err := store.Acquire(ctx, "a", 10*time.Second)
	require.NoError(t, err)
	assert.InDelta(t, 10, left(), 5, "there is nothing but a lease")

	token := stored(fence, "a token")
	token.Expires = time.Now().Add(time.Hour)
	require.NoError(t, store.Save(ctx, token))
	assert.InDelta(t, 3660, left(), 5)
	_, err = store.Acquire(ctx, "a", 10*time.Second)
	require.NoError(t, err)
	assert.InDelta(t, 3660, left(), 5, "a lease does not shorten it")
	_, err = store.Acquire(ctx, "a", 3*time.Hour)
	require.NoError(t, err)
	assert.InDelta(t, 3*3600, left(), 5, "the lease is in the same key")
	require.NoError(t, store.Save(ctx, token))
	assert.InDelta(t, 3*3600, left(), 5)

	require.NoError(t, store.Save(ctx, stored(fence, "a token of unknown life")))
	assert.Negative(t, left())
	_, err = store.Acquire(ctx, "a", 10*time.Second)
	require.NoError(t, err)
	assert.Negative(t, left())
}
