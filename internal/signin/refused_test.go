package signin_test

import (
	"context"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/lendingtest"
)

// None of several tokens that were refused comes back out of a store that kept one.
func TestRefusedTokensDoNotComeBack(t *testing.T) {
	withStore(t, func(t *testing.T, service *lendingtest.Service, store *hookedStore, client *lending.Client) {
		first := tokenIn(t, client)
		store.fail("", errDown)
		client.Session().Invalidate(first)
		require.NoError(t, client.Session().SignIn(t.Context()))
		second := tokenIn(t, client)
		client.Session().Invalidate(second)
		store.fail("", nil)
		third := tokenIn(t, client)
		assert.NotEqual(t, first.Value.Reveal(), third.Value.Reveal())
		assert.Equal(t, 3, service.Arrived(fake.LoginRoute))
	})
}

// A token can be refused before the store has it. Nobody waits for a refresh, who would sign
// in anew and so replace the refused token.
func TestTokenIsRefusedBeforeItWasKept(t *testing.T) {
	for _, got := range []string{"by a sign-in", "by a refresh"} {
		runInBubble(t, got, func(t *testing.T, service *lendingtest.Service) {
			store := newHookedStore()
			client := fake.SignIn(t, service, nil, lending.WithTokenStore(store))
			if got == "by a refresh" {
				require.NoError(t, read(t.Context(), client))
				bubble.Elapse(50 * time.Minute)
			}
			ready := make(chan struct{})
			store.at("save", func(context.Context) error { <-ready; return nil })
			go func() { _, _, _ = takeToken(t.Context(), client) }()
			synctest.Wait()
			refused := tokenIn(t, client)
			client.Session().Invalidate(refused)
			close(ready)
			synctest.Wait()
			next := tokenIn(t, fake.SignIn(t, service, nil, lending.WithTokenStore(store)))
			assert.NotEqual(t, refused.Value.Reveal(), next.Value.Reveal())
		})
	}
}

// A token that is refused to several processes is one failure, not one for each.
func TestRefusalIsCountedOnce(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		first, second := twoReplicas(t, service, nil)
		for range 3 {
			require.NoError(t, read(t.Context(), first))
			require.NoError(t, read(t.Context(), second))
			bubble.Elapse(16 * time.Second) // the token is due to be refreshed
			service.RevokeTokens()
			first.Session().Invalidate(tokenIn(t, first))
			tokenIn(t, second) // begins to refresh, and looks into the store before
			synctest.Wait()
			first, second = second, first
		}
		require.NoError(t, read(t.Context(), first))
		require.NoError(t, read(t.Context(), second))
	}, lendingtest.WithTokenLifetime(20*time.Second))
}

func TestRefusedTokenIsClearedWhileTheClientCloses(t *testing.T) {
	withStore(t, func(t *testing.T, service *lendingtest.Service, store *hookedStore, client *lending.Client) {
		got := tokenIn(t, client)
		store.before(slowly)
		go client.Session().Invalidate(got)
		synctest.Wait()
		client.Close()
		kept, err := store.TokenStore.Load(t.Context())
		require.NoError(t, err)
		assert.NotContains(t, kept.Data.Reveal(), got.Value.Reveal())
	})
}

func TestTokenThatEndsBeforeItIsShared(t *testing.T) {
	for _, test := range []struct {
		name string
		end  func(*lendingtest.Service)
	}{
		{"refused", (*lendingtest.Service).RevokeTokens},
		{"expired", func(*lendingtest.Service) { bubble.Elapse(2 * time.Second) }},
	} {
		runInBubble(t, test.name, func(t *testing.T, service *lendingtest.Service) {
			store := newHookedStore()
			store.at("save", func(context.Context) error {
				store.before(nil)
				bubble.Elapse(4 * time.Second)
				return nil
			})
			client := fake.SignIn(t, service, nil, lending.WithTokenStore(store))
			given := make(chan lending.Token, 1)
			go func() {
				token, err := client.Session().Token(t.Context())
				assert.NoError(t, err)
				assert.True(t, token.Expires.After(time.Now()), "given out after its end")
				given <- token
			}()
			synctest.Wait() // it has a token, which is not kept yet
			test.end(service)
			require.NoError(t, read(t.Context(), client), "not sent again once it was refused")
			now := tokenIn(t, client)
			assert.Equal(t, now.Value.Reveal(), (<-given).Value.Reveal())
			assert.Equal(t, 2, service.Arrived(fake.LoginRoute))
		}, lendingtest.WithTokenLifetime(2*time.Second))
	}
}

// A service whose tokens never live until they are given out is not asked again and again.
func TestTokensThatAlwaysEndBeforeTheyAreShared(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		client := fake.SignIn(t, service, nil,
			lending.WithHTTPClient(&http.Client{Transport: slowAnswers{service.Transport(), 2 * time.Second}}))
		for start := time.Now(); time.Since(start) < time.Minute; bubble.Elapse(10 * time.Millisecond) {
			require.ErrorContains(t, read(t.Context(), client), "its token is of no use any more")
		}
		assert.LessOrEqual(t, service.Arrived(fake.LoginRoute), 10)
	}, lendingtest.WithTokenLifetime(time.Second))
}

// Processes that live for one call each must not find the refused token again.
func TestRefusedTokenLeavesTheStore(t *testing.T) {
	for _, test := range []struct {
		name string
		end  func(*lending.Client)
	}{
		{"closed", (*lending.Client).Close},
		{"exits", func(*lending.Client) {}},
	} {
		runInBubble(t, test.name, func(t *testing.T, service *lendingtest.Service) {
			path := filepath.Join(t.TempDir(), "token")
			mutate := func() error {
				client := fake.SignIn(t, service, nil, lending.WithTokenStore(fileStore(t, path)))
				defer test.end(client)
				return client.Applications.Cancel(t.Context(), catalog.Application)
			}
			require.NotErrorIs(t, mutate(), lending.ErrUnauthorized)
			service.RevokeTokens()
			require.ErrorIs(t, mutate(), lending.ErrUnauthorized)
			for range 3 {
				require.NotErrorIs(t, mutate(), lending.ErrUnauthorized)
				bubble.Elapse(time.Minute)
			}
			assert.Equal(t, 2, service.Arrived(fake.LoginRoute))
		})
	}
}

// TestReplicaHasTheOlderOfTwoRefusedTokens revokes the tokens after one replica has refreshed
// and the other still uses the token from before.
func TestReplicaHasTheOlderOfTwoRefusedTokens(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		older, newer := twoReplicas(t, service, nil)
		require.NoError(t, read(t.Context(), older))
		require.NoError(t, read(t.Context(), newer))
		bubble.Elapse(time.Minute)
		require.NoError(t, newer.Session().SignIn(t.Context()))
		require.NotEqual(t, tokenIn(t, older), tokenIn(t, newer))

		service.RevokeTokens()
		require.NoError(t, read(t.Context(), older))
		require.NoError(t, read(t.Context(), newer))
		assert.Equal(t, 2+3+2, service.Arrived(readRoute))
		assert.Equal(t, 2, service.Arrived(fake.LoginRoute))
	})
}

// TestReadEndsWhileReplicasSignIn has the service refuse every token of a read, while another
// replica puts a new token in the store each time.
func TestReadEndsWhileReplicasSignIn(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		client, other := twoReplicas(t, service, nil)
		require.NoError(t, read(t.Context(), client))
		service.Answer(readRoute, func(w http.ResponseWriter, _ *http.Request) {
			bubble.Elapse(time.Second)
			assert.NoError(t, other.Session().SignIn(t.Context()))
			w.WriteHeader(http.StatusUnauthorized)
		})
		require.ErrorIs(t, read(t.Context(), client), lending.ErrUnauthorized)
		assert.Equal(t, 1+3, service.Arrived(readRoute))
	})
}

func TestSameRefusalOfManyCalls(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		client := fake.SignIn(t, service, nil)
		require.NoError(t, read(t.Context(), client))
		before := service.Arrived(readRoute)
		service.RevokeTokens()
		together := make(chan struct{})
		service.Fail(readRoute, lendingtest.Fault{Reached: func() { <-together }, Times: 50})
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() { assert.NoError(t, read(t.Context(), client)) })
		}
		synctest.Wait()
		close(together)
		all.Wait()
		assert.Equal(t, 2, service.Arrived(fake.LoginRoute), "one sign-in more")
		assert.Equal(t, before+100, service.Arrived(readRoute), "each read once more")
	})
}

// A service that refuses every token must not make the client send a code for each call.
func TestEveryTokenIsRefused(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		client := fake.SignIn(t, service, nil)
		service.Fail(readRoute, lendingtest.Fault{Status: http.StatusUnauthorized, Times: -1})
		require.ErrorIs(t, read(t.Context(), client), lending.ErrUnauthorized)
		assert.Equal(t, 2, service.Arrived(readRoute), "once more, as both tokens are of this session")
		for range 600 {
			require.Error(t, read(t.Context(), client))
			bubble.Elapse(100 * time.Millisecond)
		}
		assert.LessOrEqual(t, service.Arrived(fake.LoginRoute), 12, "sign-ins in a minute")
		assert.GreaterOrEqual(t, service.Arrived(fake.LoginRoute), 3)
	})
}

// A newer token that the store keeps meanwhile stays, and nothing is logged.
func TestRefusedTokenLeavesANewerOne(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		store, logged := newHookedStore(), new(strings.Builder)
		client := fake.SignIn(t, service, nil, lending.WithTokenStore(store),
			lending.WithLogger(slog.New(slog.NewTextHandler(logged, nil))))
		got := tokenIn(t, client)
		store.fail("save", lending.ErrFenced)
		client.Session().Invalidate(got)
		synctest.Wait()
		assert.NotContains(t, logged.String(), "clearing the stored token")
	})
}
