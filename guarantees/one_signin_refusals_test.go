package guarantees_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/lendingtest"
)

// Whoever comes after the last caller has left does not wait for what that one has ended.
func TestCallerAfterTheLastOneLeft(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		store, stuck := newHookedStore(), make(chan struct{})
		client := fake.SignIn(t, service, nil, lending.WithTokenStore(store))
		store.before(func(context.Context, string) error { <-stuck; return context.Canceled })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _, err := takeToken(ctx, client)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		store.before(nil)
		_, waited, err := takeToken(t.Context(), client)
		require.NoError(t, err)
		assert.Zero(t, waited)
		close(stuck)
	})
}

func TestRefusedTokenIsRemembered(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		store := &faultyStore{TokenStore: lending.NewMemoryTokenStore()}
		client := fake.SignIn(t, service, nil, lending.WithTokenStore(store))
		first, _, err := takeToken(t.Context(), client)
		require.NoError(t, err)
		store.down.Store(true) // it keeps the token
		client.Session().Invalidate(first)
		store.down.Store(false)
		second, _, err := takeToken(t.Context(), client)
		require.NoError(t, err)
		assert.NotEqual(t, first.Value.Reveal(), second.Value.Reveal())
	})
}

// A token that is refused to several processes is one failure, not one for each.
func TestRefusalIsCountedOnce(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		store := lending.NewMemoryTokenStore()
		first := fake.SignIn(t, service, nil, lending.WithTokenStore(store))
		second := fake.SignIn(t, service, nil, lending.WithTokenStore(store))
		for range 3 {
			require.NoError(t, read(t.Context(), first))
			require.NoError(t, read(t.Context(), second))
			bubble.Elapse(16 * time.Second) // the token is due to be refreshed
			service.RevokeTokens()
			token, _, err := takeToken(t.Context(), first)
			require.NoError(t, err)
			first.Session().Invalidate(token)
			_, _, err = takeToken(t.Context(), second) // begins to refresh, and looks into the store before
			require.NoError(t, err)
			synctest.Wait()
			first, second = second, first
		}
		require.NoError(t, read(t.Context(), first))
		require.NoError(t, read(t.Context(), second))
	}, lendingtest.WithTokenLifetime(20*time.Second))
}

// The pause that a failing store has caused ends with the first success.
func TestPauseOfTheStoreEndsWithASuccess(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		store := &faultyStore{TokenStore: lending.NewMemoryTokenStore()}
		client := fake.SignIn(t, service, nil, lending.WithTokenStore(store))
		store.down.Store(true)
		require.Error(t, read(t.Context(), client))
		store.down.Store(false)
		require.ErrorContains(t, read(t.Context(), client), "not tried again before")
		require.NoError(t, client.Session().SignIn(t.Context()))
		got, _, err := takeToken(t.Context(), client)
		require.NoError(t, err)
		client.Session().Invalidate(got)
		_, waited, err := takeToken(t.Context(), client)
		require.NoError(t, err)
		assert.Zero(t, waited)
	})
}

// slowly lets each step of a store take a second, unless its context ends before.
func slowly(ctx context.Context, _ string) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Second):
		return nil
	}
}

func TestRefusedTokenIsClearedWhileTheClientCloses(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		store := newHookedStore()
		client := fake.SignIn(t, service, nil, lending.WithTokenStore(store))
		got, _, err := takeToken(t.Context(), client)
		require.NoError(t, err)
		store.before(slowly)
		go client.Session().Invalidate(got)
		synctest.Wait()
		require.NoError(t, client.Close())
		kept, err := store.TokenStore.Load(t.Context())
		require.NoError(t, err)
		assert.NotContains(t, kept.Data.Reveal(), got.Value.Reveal())
	})
}

// What a sign-in has brought is kept although the one who waited for it has gone.
func TestTokenIsKeptAfterTheLastCallerLeft(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		store := newHookedStore()
		client := fake.SignIn(t, service, nil, lending.WithTokenStore(store))
		store.before(func(ctx context.Context, step string) error {
			if step == "save" {
				return slowly(ctx, step)
			}
			return nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, _, err := takeToken(ctx, client)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		bubble.Elapse(2 * time.Second)
		next := fake.SignIn(t, service, nil, lending.WithTokenStore(store.TokenStore))
		require.NoError(t, read(t.Context(), next))
		assert.Equal(t, 1, service.Arrived(fake.LoginRoute))
	})
}

// The pause after a 429 is what the service asks for, not that after a wrong password.
func TestRateLimitIsNoRefusal(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		client := fake.SignIn(t, service, nil)
		limited := lendingtest.Fault{Status: http.StatusTooManyRequests, RetryAfter: 5 * time.Second}
		service.Fail(fake.LoginRoute, limited)
		require.Error(t, read(t.Context(), client))
		bubble.Elapse(5 * time.Second)
		require.NoError(t, read(t.Context(), client))
	})
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		client := fake.SignIn(t, service, nil)
		service.Fail(fake.TwoFactorRoute, lendingtest.Fault{Status: http.StatusTooManyRequests})
		require.Error(t, read(t.Context(), client))
		assert.Equal(t, 1, service.Arrived(fake.TwoFactorRoute), "the code was not wrong, and none is asked for again")
	})
}

func TestEmptySignInIsARefusal(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		client := fake.SignIn(t, service, nil)
		service.Fail(fake.LoginRoute, lendingtest.Fault{
			Status: http.StatusOK, Body: []byte(`{"requiresTwoFactor":false,"token":""}`), ContentType: "application/json", Times: -1,
		})
		for range 59 {
			require.Error(t, read(t.Context(), client))
			bubble.Elapse(time.Second)
		}
		assert.Equal(t, 1, service.Arrived(fake.LoginRoute))
	})
}

// leases notes for how long leases are asked.
type leases struct {
	lending.TokenStore
	longest atomic.Int64
}

func (l *leases) Acquire(ctx context.Context, owner string, ttl time.Duration) (int64, error) {
	l.longest.Store(max(l.longest.Load(), int64(ttl)))
	return l.TokenStore.Acquire(ctx, owner, ttl)
}

// Whoever takes the lease for a refresh and dies must leave the others time for theirs.
func TestLeaseOfARefreshIsShort(t *testing.T) {
	const life = 20 * time.Second // it is used for 18 s
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		store := &leases{TokenStore: lending.NewMemoryTokenStore()}
		client := fake.SignIn(t, service, nil, lending.WithTokenStore(store))
		require.NoError(t, read(t.Context(), client))
		store.longest.Store(0)
		bubble.Elapse(16 * time.Second)
		require.NoError(t, read(t.Context(), client))
		synctest.Wait()
		assert.Equal(t, 1, service.Arrived(fake.RefreshRoute))
		assert.LessOrEqual(t, time.Duration(store.longest.Load()), time.Second/2)
	}, lendingtest.WithTokenLifetime(life))
}

// A store that has lost everything must not give out fences below those of before.
func TestFencesComeFromTheClock(t *testing.T) {
	eachStore(t, func(t *testing.T, store lending.TokenStore) {
		bubble.Elapse(time.Second)
		fence, err := store.Acquire(t.Context(), "a", time.Minute)
		require.NoError(t, err)
		assert.Equal(t, time.Now().UnixMicro(), fence)
		require.NoError(t, store.Release(t.Context(), "a"))
		next, err := store.Acquire(t.Context(), "b", time.Minute)
		require.NoError(t, err)
		assert.Equal(t, fence+1, next)
	})
}

// Nothing of a session goes on after Close: the token that it has may be used, and is not refreshed.
func TestNothingIsRefreshedAfterClose(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		client := fake.SignIn(t, service, nil)
		require.NoError(t, read(t.Context(), client))
		require.NoError(t, client.Close())
		bubble.Elapse(51 * time.Minute)
		require.NoError(t, read(t.Context(), client))
		synctest.Wait()
		assert.Zero(t, service.Arrived(fake.RefreshRoute))
	})
}
