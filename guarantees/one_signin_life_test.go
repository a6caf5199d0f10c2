package guarantees_test

import (
	"context"
	"net/http"
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

// The life of a refreshed token is the life of the token before. A slow answer to the sign-in
// must not shorten all of them.
func TestSlowSignInShortensNoLaterToken(t *testing.T) {
	for _, skew := range []time.Duration{0, 3 * time.Hour, -3 * time.Hour} {
		t.Run(skew.String(), func(t *testing.T) {
			const life = 5 * time.Second
			fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
				service.Advance(skew)
				way := &slowAnswers{service.Transport(), 4400 * time.Millisecond}
				store := lending.NewMemoryTokenStore()
				client := fake.SignIn(t, service, trusted, lending.WithHTTPClient(&http.Client{Transport: way}), lending.WithTokenStore(store))
				require.NoError(t, read(t.Context(), client))
				way.late = 0
				// A second process inherits the life through the store.
				other := fake.SignIn(t, service, trusted, lending.WithTokenStore(store))
				for range 100 * 20 {
					require.NoError(t, read(t.Context(), client))
					require.NoError(t, read(t.Context(), other))
					bubble.Elapse(life / 20)
				}
				assert.Equal(t, 1, service.Arrived(fake.LoginRoute))
				assert.Less(t, service.Arrived(fake.RefreshRoute), 220, "in 100 lives")
			}, lendingtest.WithTokenLifetime(life))
		})
	}
}

func trusted(c *lending.Credentials) {
	c.TrustedDeviceToken = lending.NewSecret(lendingtest.TrustedDeviceToken)
}

// Two thirds of 150 years are more nanoseconds than an int64 holds, if they are multiplied first.
func TestTokenThatLivesForCenturies(t *testing.T) {
	for _, expires := range []string{"2140-01-01T00:00:00", "2160-01-01T00:00:00", "2239-01-01T00:00:00", "9999-12-31T23:59:59"} {
		t.Run(expires[:4], func(t *testing.T) {
			fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
				scripted(service, expires, "second")
				client := fake.SignIn(t, service, nil)
				for range 1000 {
					_, _, err := takeToken(t.Context(), client)
					require.NoError(t, err)
					bubble.Elapse(time.Second)
				}
				assert.Equal(t, 1, service.Arrived(fake.LoginRoute))
				assert.Zero(t, service.Arrived(fake.RefreshRoute))
			})
		})
	}
}

func TestSignInBesideAToken(t *testing.T) {
	t.Run("that is valid", func(t *testing.T) {
		fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
			client := fake.SignIn(t, service, nil)
			require.NoError(t, client.Session().SignIn(t.Context()))
			bubble.Elapse(time.Second)
			require.NoError(t, client.Session().SignIn(t.Context()))
			assert.Len(t, service.Sent(), 1, "no second code")
			assert.Equal(t, 1, service.Arrived(fake.RefreshRoute), "the service has confirmed the token")
		})
	})
	t.Run("that is revoked", func(t *testing.T) {
		fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
			store := lending.NewMemoryTokenStore()
			client := fake.SignIn(t, service, nil, lending.WithTokenStore(store))
			for range 5 { // until a sign-in is no longer tried at once
				require.NoError(t, client.Session().SignIn(t.Context()))
				bubble.Elapse(time.Second)
				service.RevokeTokens()
			}
			require.NoError(t, client.Session().SignIn(t.Context()))
			require.NoError(t, read(t.Context(), client))
			require.NoError(t, read(t.Context(), fake.SignIn(t, service, nil, lending.WithTokenStore(store))))
			assert.Equal(t, 6, service.Arrived(fake.LoginRoute))
		})
	})
	t.Run("that expires meanwhile", func(t *testing.T) {
		fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
			store := &stolenStore{TokenStore: lending.NewMemoryTokenStore()}
			client := fake.SignIn(t, service, nil, lending.WithTokenStore(store))
			require.NoError(t, client.Session().SignIn(t.Context()))
			bubble.Elapse(45 * time.Second)
			store.stolen.Store(true) // another process holds the lease
			time.AfterFunc(15*time.Second, func() { store.stolen.Store(false) })
			require.NoError(t, client.Session().SignIn(t.Context()))
			assert.Zero(t, service.Arrived(fake.RefreshRoute), "an expired token cannot be refreshed")
			assert.Equal(t, 2, service.Arrived(fake.LoginRoute))
		}, lendingtest.WithTokenLifetime(time.Minute))
	})
	t.Run("that another process has revoked", func(t *testing.T) {
		fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
			store := lending.NewMemoryTokenStore()
			client := fake.SignIn(t, service, nil, lending.WithTokenStore(store))
			require.NoError(t, read(t.Context(), fake.SignIn(t, service, nil, lending.WithTokenStore(store))))
			service.RevokeTokens()
			bubble.Elapse(time.Second)
			require.NoError(t, client.Session().SignIn(t.Context()), "the store still has the revoked token")
			assert.Equal(t, 2, service.Arrived(fake.LoginRoute))
			require.NoError(t, read(t.Context(), client))
			assert.Equal(t, 2, service.Arrived(fake.LoginRoute))
		})
	})
	t.Run("while the service is down", func(t *testing.T) {
		fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
			client := fake.SignIn(t, service, nil)
			before, _, err := takeToken(t.Context(), client)
			require.NoError(t, err)
			bubble.Elapse(time.Second)
			service.Fail(fake.RefreshRoute, lendingtest.Fault{Status: http.StatusServiceUnavailable})
			require.Error(t, client.Session().SignIn(t.Context()))
			after, _, err := takeToken(t.Context(), client)
			require.NoError(t, err)
			assert.Equal(t, before.Value.Reveal(), after.Value.Reveal())
			assert.Equal(t, 1, service.Arrived(fake.LoginRoute))
		})
	})
	t.Run("and the client is closed", func(t *testing.T) {
		fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
			client := fake.SignIn(t, service, nil)
			require.NoError(t, client.Session().SignIn(t.Context()))
			bubble.Elapse(time.Second)
			require.NoError(t, client.Close())
			require.ErrorContains(t, client.Session().SignIn(t.Context()), "closed")
		})
	})
	t.Run("and the caller leaves", func(t *testing.T) {
		fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
			client := fake.SignIn(t, service, nil)
			require.NoError(t, client.Session().SignIn(t.Context()))
			bubble.Elapse(time.Second)
			service.Fail(fake.RefreshRoute, lendingtest.Fault{Delay: time.Hour})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			require.ErrorIs(t, client.Session().SignIn(ctx), context.DeadlineExceeded)
			synctest.Wait()
		})
	})
}
