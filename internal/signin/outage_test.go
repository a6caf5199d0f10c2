package signin_test

import (
	"context"
	"fmt"
	"log/slog"
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
	"github.com/lendingapi/lending-go/internal/test/longrun"
	"github.com/lendingapi/lending-go/lendingtest"
)

// While the store hangs each session refreshes by itself, however shortly a token lives.
func TestStoreHangs(t *testing.T) {
	t.Parallel()
	lives := []time.Duration{
		20 * time.Second, 10 * time.Minute, 5 * time.Second, time.Minute, 3 * time.Minute,
		time.Hour,
	}
	if !longrun.Wanted() {
		lives = lives[:2]
	}
	for _, life := range lives {
		for _, deaf := range []bool{false, true} {
			for _, from := range []string{"load", "acquire", "release"} {
				t.Run(fmt.Sprint(life, from, map[bool]string{true: " deaf"}[deaf]), func(t *testing.T) {
					fake.InBubble(t, func(t *testing.T,
						service *lendingtest.Service,
					) {
						useHangingStore(t, service, life, deaf, from)
					},
						lendingtest.WithTokenLifetime(life))
				})
			}
		}
	}
}

// useHangingStore has a store that hangs from a step on, with a deaf ear for its context.
func useHangingStore(t *testing.T, service *lendingtest.Service, life time.Duration, deaf bool, from string) {
	t.Helper()
	store := newHookedStore()
	var clients []*lending.Client
	for range 3 {
		clients = append(clients, fake.SignIn(t, service, nil, lending.WithTokenStore(store)))
	}
	service.Fail(fake.RefreshRoute, lendingtest.Fault{DelayBefore: min(life/40, 10*time.Second), Times: -1})
	use := func(lives int) {
		for range lives * 60 {
			for _, client := range clients {
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				require.NoError(t, read(ctx, client))
				cancel()
			}
			bubble.Elapse(life / 60)
		}
	}
	for _, client := range clients {
		require.NoError(t, read(t.Context(), client))
	}
	back := make(chan struct{})
	comeBack := sync.OnceFunc(func() { close(back) })
	defer comeBack() // Close waits for it
	store.before(func(ctx context.Context, step string) error {
		switch {
		case from == "acquire" && step == "load", from == "release" && step != "release":
			return nil
		case deaf:
			<-back
		default:
			<-ctx.Done()
		}
		return ctx.Err()
	})
	use(3)
	store.before(nil)
	comeBack()
	use(2)
	assert.Equal(t, 1, service.Arrived(fake.LoginRoute))
	for _, request := range service.Requests() {
		require.NotEqual(t, http.StatusUnauthorized, request.Status)
	}
}

// The pause that a failing store has caused ends with the first success.
func TestPauseOfTheStoreEndsWithASuccess(t *testing.T) {
	withStore(t, func(t *testing.T, service *lendingtest.Service, store *hookedStore, client *lending.Client) {
		store.fail("", errDown)
		require.Error(t, read(t.Context(), client))
		store.fail("", nil)
		require.ErrorContains(t, read(t.Context(), client), "not tried again before")
		require.NoError(t, client.Session().SignIn(t.Context()))
		got := tokenIn(t, client)
		client.Session().Invalidate(got)
		_, waited, err := takeToken(t.Context(), client)
		require.NoError(t, err)
		assert.Zero(t, waited)
	})
}

func TestStoreIsDown(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		store := newHookedStore()
		first := fake.SignIn(t, service, nil, lending.WithTokenStore(store))
		second := fake.SignIn(t, service, nil, lending.WithTokenStore(store))
		require.NoError(t, read(t.Context(), first))
		require.NoError(t, read(t.Context(), second))
		store.fail("", errDown)
		for range 3 * 60 {
			require.NoError(t, read(t.Context(), first))
			require.NoError(t, read(t.Context(), second))
			bubble.Elapse(time.Minute)
			if time.Since(service.Requests()[0].Time) == 50*time.Minute {
				assert.Zero(t, service.Arrived(fake.RefreshRoute), "there is hope that the store comes back")
			}
		}
		assert.Equal(t, 1, service.Arrived(fake.LoginRoute))
		assert.Equal(t, 6, service.Arrived(fake.RefreshRoute), "each its own, at the last moment")

		store.fail("", nil)
		for range 60 {
			require.NoError(t, read(t.Context(), first))
			require.NoError(t, read(t.Context(), second))
			bubble.Elapse(time.Minute)
		}
		assert.InDelta(t, 7, service.Arrived(fake.RefreshRoute), 1, "shared again")
		a := tokenIn(t, first)
		b := tokenIn(t, second)
		assert.Equal(t, a.Value.Reveal(), b.Value.Reveal())
	})
}

// A token that the store does not keep is used, and the log tells.
func TestTokenThatIsNotKeptIsUsed(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		store, logged := newHookedStore(), new(strings.Builder)
		store.at("save", func(context.Context) error { return errDown })
		client := fake.SignIn(t, service, nil, lending.WithTokenStore(store),
			lending.WithLogger(slog.New(slog.NewTextHandler(logged, nil))))
		require.NoError(t, read(t.Context(), client))
		assert.Contains(t, logged.String(), "keeping the token")
	})
}

func TestNobodySignsInWithoutTheStore(t *testing.T) {
	withStore(t, func(t *testing.T, service *lendingtest.Service, store *hookedStore, client *lending.Client) {
		store.fail("", errDown)
		err := read(t.Context(), client)
		require.ErrorIs(t, err, errDown)
		require.ErrorContains(t, err, "token store")
		require.Error(t, read(t.Context(), client))
		assert.Zero(t, service.Arrived(fake.LoginRoute))
		require.NoError(t, client.Session().SignIn(t.Context()), "unless somebody asks for it")
		require.NoError(t, read(t.Context(), client))
		assert.Equal(t, 1, service.Arrived(fake.LoginRoute))
	})
}

// A person's SignIn that meets the sign-in of another caller signs in without the store afterwards.
func TestSignInBesideACallerWithoutTheStore(t *testing.T) {
	withStore(t, func(t *testing.T, service *lendingtest.Service, store *hookedStore, client *lending.Client) {
		store.before(func(context.Context, string) error { bubble.Elapse(time.Second); return errDown })
		go func() { assert.ErrorIs(t, read(t.Context(), client), errDown) }()
		synctest.Wait()
		require.NoError(t, client.Session().SignIn(t.Context()))
		assert.Equal(t, 1, service.Arrived(fake.LoginRoute))
	})
}

// While the store fails, the sign-in of a person serves all callers, and another person.
func TestCallersShareTheSignInWithoutTheStore(t *testing.T) {
	withStore(t, func(t *testing.T, service *lendingtest.Service, store *hookedStore, client *lending.Client) {
		store.fail("", errDown)
		require.ErrorIs(t, read(t.Context(), client), errDown)
		service.Fail(fake.LoginRoute, lendingtest.Fault{DelayBefore: time.Second})
		for range 2 {
			go func() { assert.NoError(t, client.Session().SignIn(t.Context())) }()
		}
		synctest.Wait()
		require.NoError(t, read(t.Context(), client), "in the pause of the store")
		assert.Equal(t, 1, service.Arrived(fake.LoginRoute))
	})
}

// Refusals of tokens that were issued without the store are in a row, too.
func TestTokensAreRefusedWithoutTheStore(t *testing.T) {
	withStore(t, func(t *testing.T, service *lendingtest.Service, store *hookedStore, client *lending.Client) {
		store.fail("", errDown)
		for range 4 {
			require.NoError(t, client.Session().SignIn(t.Context()))
			client.Session().Invalidate(tokenIn(t, client))
		}
		store.fail("", nil)
		require.ErrorContains(t, read(t.Context(), client), "not tried again before")
	})
}
