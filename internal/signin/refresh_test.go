package signin_test

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

// A token that was got without the store stays, though the store has an older one.
func TestTokenOfALoneSignInStays(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		shared := lending.NewMemoryTokenStore()
		store := &hookedStore{TokenStore: shared}
		require.NoError(t, read(t.Context(), fake.SignIn(t, service, nil, lending.WithTokenStore(shared))))
		old, err := shared.Load(t.Context())
		require.NoError(t, err)
		bubble.Elapse(5 * time.Minute)

		store.fail("", errDown)
		client := fake.SignIn(t, service, nil, lending.WithTokenStore(store))
		require.NoError(t, client.Session().SignIn(t.Context()))
		store.fail("", nil)
		bubble.Elapse(51 * time.Minute) // it is due, and the older one may still be used
		tokenIn(t, client)
		synctest.Wait()
		got := tokenIn(t, client)
		assert.NotContains(t, old.Data.Reveal(), got.Value.Reveal())
		assert.Equal(t, 1, service.Arrived(fake.RefreshRoute))
		kept, err := shared.Load(t.Context())
		require.NoError(t, err)
		assert.Contains(t, kept.Data.Reveal(), got.Value.Reveal(), "from now on all have it")
	})
}

func TestNobodyWaitsForARefresh(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		client := fake.SignIn(t, service, nil)
		first := tokenIn(t, client)
		bubble.Elapse(50*time.Minute + time.Second)
		service.Fail(fake.RefreshRoute, lendingtest.Fault{DelayBefore: 20 * time.Second})
		start := time.Now()
		for range 100 {
			require.NoError(t, read(t.Context(), client))
		}
		assert.Zero(t, time.Since(start))
		bubble.Elapse(time.Minute)
		assert.Equal(t, 1, service.Arrived(fake.RefreshRoute))
		assert.Equal(t, 1, service.Arrived(fake.LoginRoute))
		assert.NotEqual(t, first.Value.Reveal(), tokenIn(t, client).Value.Reveal())
	})
}

func TestKeepalive(t *testing.T) {
	withStore(t, func(t *testing.T, service *lendingtest.Service, store *hookedStore, client *lending.Client) {
		loads := new(atomic.Int32)
		store.at("load", func(context.Context) error { loads.Add(1); return nil })
		ended := make(chan error, 2)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { ended <- client.Session().Keepalive(ctx) }()
		bubble.Elapse(time.Hour)
		assert.Zero(t, service.Arrived(fake.LoginRoute), "it never signs in")
		assert.InDelta(t, 60, loads.Load(), 2, "it looks for a token of others once a minute")
		require.NoError(t, read(t.Context(), client))
		synctest.Wait()
		loads.Store(0)
		bubble.Elapse(30 * time.Minute)
		assert.Zero(t, loads.Load(), "it has a token")
		bubble.Elapse(48 * time.Hour)
		require.NoError(t, read(t.Context(), client))
		assert.Equal(t, 1, service.Arrived(fake.LoginRoute))
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)

		go func() { ended <- client.Session().Keepalive(t.Context()) }()
		synctest.Wait()
		client.Close()
		require.Error(t, <-ended)
		before := len(service.Requests())
		bubble.Elapse(48 * time.Hour)
		assert.Len(t, service.Requests(), before, "nothing runs after Close")
	})
}

// A failed refresh is tried again now and then, and not before the service's Retry-After. No expired
// token is sent: after its end comes a new sign-in.
func TestRefreshFails(t *testing.T) {
	for _, test := range []struct {
		name      string
		fault     lendingtest.Fault
		refreshes int
		most      float64 // away
	}{
		{"503", lendingtest.Fault{Status: http.StatusServiceUnavailable, Times: -1}, 14, 6},
		{"429", lendingtest.Fault{Status: http.StatusTooManyRequests, RetryAfter: 2 * time.Hour, Times: -1}, 1, 0},
	} {
		runInBubble(t, test.name, func(t *testing.T, service *lendingtest.Service) {
			client := fake.SignIn(t, service, nil)
			service.Fail(fake.RefreshRoute, test.fault)
			for range 6 * 61 {
				require.NoError(t, read(t.Context(), client))
				bubble.Elapse(10 * time.Second)
			}
			assert.InDelta(t, test.refreshes, service.Arrived(fake.RefreshRoute), test.most, "in 15 minutes")
			assert.Equal(t, 2, service.Arrived(fake.LoginRoute))
			for _, request := range service.Requests() {
				assert.NotEqual(t, http.StatusUnauthorized, request.Status)
			}
		})
	}
}
