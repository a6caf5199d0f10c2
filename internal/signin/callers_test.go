package signin_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/lendingtest"
)

// Whoever comes after the last caller has left does not wait for what that one has ended.
func TestCallerAfterTheLastOneLeft(t *testing.T) {
	withStore(t, func(t *testing.T, service *lendingtest.Service, store *hookedStore, client *lending.Client) {
		stuck := make(chan struct{})
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

// What a sign-in has brought is kept although the one who waited for it has gone.
func TestTokenIsKeptAfterTheLastCallerLeft(t *testing.T) {
	withStore(t, func(t *testing.T, service *lendingtest.Service, store *hookedStore, client *lending.Client) {
		store.at("save", func(ctx context.Context) error { return slowly(ctx, "save") })
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

func TestSignInBesideAToken(t *testing.T) {
	runInBubble(t, "that is valid", func(t *testing.T, service *lendingtest.Service) {
		client := fake.SignIn(t, service, nil)
		require.NoError(t, client.Session().SignIn(t.Context()))
		bubble.Elapse(time.Second)
		require.NoError(t, client.Session().SignIn(t.Context()))
		assert.Len(t, service.Sent(), 1, "no second code")
		assert.Equal(t, 1, service.Arrived(fake.RefreshRoute), "the service has confirmed the token")
	})
	runInBubble(t, "that is revoked", func(t *testing.T, service *lendingtest.Service) {
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
	runInBubble(t, "that expires meanwhile", func(t *testing.T, service *lendingtest.Service) {
		store := newHookedStore()
		client := fake.SignIn(t, service, nil, lending.WithTokenStore(store))
		require.NoError(t, client.Session().SignIn(t.Context()))
		bubble.Elapse(45 * time.Second)
		store.fail("acquire", lending.ErrLeaseHeld) // another process holds the lease
		time.AfterFunc(15*time.Second, func() { store.fail("acquire", nil) })
		require.NoError(t, client.Session().SignIn(t.Context()))
		assert.Zero(t, service.Arrived(fake.RefreshRoute), "an expired token cannot be refreshed")
		assert.Equal(t, 2, service.Arrived(fake.LoginRoute))
	}, lendingtest.WithTokenLifetime(time.Minute))
	runInBubble(t, "that another process has revoked", func(t *testing.T, service *lendingtest.Service) {
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
	runInBubble(t, "while the service is down", func(t *testing.T, service *lendingtest.Service) {
		client := fake.SignIn(t, service, nil)
		before := tokenIn(t, client)
		bubble.Elapse(time.Second)
		service.Fail(fake.RefreshRoute, lendingtest.Fault{Status: http.StatusServiceUnavailable})
		require.Error(t, client.Session().SignIn(t.Context()))
		after := tokenIn(t, client)
		assert.Equal(t, before.Value.Reveal(), after.Value.Reveal())
		assert.Equal(t, 1, service.Arrived(fake.LoginRoute))
	})
	runInBubble(t, "and the caller leaves", func(t *testing.T, service *lendingtest.Service) {
		client := fake.SignIn(t, service, nil)
		require.NoError(t, client.Session().SignIn(t.Context()))
		bubble.Elapse(time.Second)
		service.Fail(fake.RefreshRoute, lendingtest.Fault{DelayBefore: time.Hour})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, client.Session().SignIn(ctx), context.DeadlineExceeded)
		synctest.Wait()
	})
}

func TestSessionPrintsWhetherItIsSignedIn(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		client := fake.SignIn(t, service, nil)
		assert.Equal(t, "lending session: not signed in", fmt.Sprint(client.Session()))
		require.NoError(t, read(t.Context(), client))
		assert.Equal(t, "lending session: signed in", fmt.Sprint(client.Session()))
		bubble.Elapse(time.Hour)
		assert.Equal(t, "lending session: not signed in", fmt.Sprint(client.Session()))
	})
	assert.Equal(t, "<nil>", fmt.Sprint(wire.NewClient(t, "https://lending.example").Session()))
}

type contextKey struct{}

func TestFirstCallerLeaves(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		client := fake.SignIn(t, service, nil, lending.WithHTTPClient(&http.Client{
			Transport: wire.RoundTripper(func(r *http.Request) (*http.Response, error) {
				_, bounded := r.Context().Deadline()
				assert.True(t, bounded)
				assert.True(t, r.Context().Value(contextKey{}) == nil || !strings.HasSuffix(r.URL.Path, "/login"),
					"a sign-in has nothing of its first caller's context")
				return service.Transport().RoundTrip(r)
			}),
		}))
		service.Fail(fake.LoginRoute, lendingtest.Fault{DelayBefore: time.Second})
		var all sync.WaitGroup
		all.Go(func() {
			ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), contextKey{}, 1), 20*time.Millisecond)
			defer cancel()
			_, waited, err := takeToken(ctx, client)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Equal(t, 20*time.Millisecond, waited)
		})
		synctest.Wait()
		for range 100 {
			all.Go(func() {
				_, waited, err := takeToken(t.Context(), client)
				assert.NoError(t, err)
				assert.LessOrEqual(t, waited, time.Second)
			})
		}
		all.Wait()
		assert.Equal(t, 1, service.Arrived(fake.LoginRoute))
	})
}

func TestLastCallerLeaves(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		ended := make(chan error, 1)
		client := fake.SignIn(t, service, func(c *lending.Credentials) {
			c.TwoFactor = func(ctx context.Context, _ lending.Challenge) (string, error) {
				select {
				case <-ctx.Done():
					ended <- ctx.Err()
					return "", ctx.Err()
				case <-time.After(10 * time.Minute):
					return service.TwoFactorCode(lendingtest.Username), nil
				}
			}
		})
		var all sync.WaitGroup
		for i := range 3 {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i+1)*time.Minute)
				defer cancel()
				_, _, err := takeToken(ctx, client)
				assert.ErrorIs(t, err, context.DeadlineExceeded)
			})
		}
		bubble.Elapse(2*time.Minute + time.Second)
		assert.Empty(t, ended, "somebody still waits")
		all.Wait()
		synctest.Wait()
		require.Len(t, ended, 1)
		assert.Equal(t, 1, service.Arrived(fake.LoginRoute))
	})
}

// Others who ask at the same time, and are told to wait, must not hold up a person.
func TestSignInAmongOtherCallers(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		wrong := func(c *lending.Credentials) { c.Password = lending.NewSecret("wrong") }
		store := newHookedStore()
		store.before(func(context.Context, string) error { bubble.Elapse(5 * time.Millisecond); return nil })
		require.Error(t, read(t.Context(), fake.SignIn(t, service, wrong, lending.WithTokenStore(store))))
		client := fake.SignIn(t, service, wrong, lending.WithTokenStore(store))
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				for ctx.Err() == nil {
					_, _, _ = takeToken(ctx, client)
					bubble.Elapse(time.Millisecond)
				}
			})
		}
		for i := range 20 {
			bubble.Elapse(time.Duration(2+i) * time.Millisecond)
			require.Error(t, client.Session().SignIn(t.Context()))
			require.Equal(t, i+2, service.Arrived(fake.LoginRoute))
		}
		cancel()
		all.Wait()
	})
}

// A caller whose context has ended begins no sign-in.
func TestSignInWithAnEndedContext(t *testing.T) {
	withStore(t, func(t *testing.T, service *lendingtest.Service, store *hookedStore, client *lending.Client) {
		store.before(func(_ context.Context, step string) error { t.Error(step); return nil })
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, _, err := takeToken(ctx, client)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, client.Session().SignIn(ctx), context.Canceled)
	})
}
