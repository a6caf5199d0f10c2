package signin_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
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

// A process that waits for another's sign-in asks the store every second after a while.
func TestWaitingForASignInSparesTheStore(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		store := newHookedStore()
		service.Fail(fake.TwoFactorRoute, lendingtest.Fault{DelayBefore: 90 * time.Second})
		go func() {
			_, _, _ = takeToken(t.Context(), fake.SignIn(t, service, nil, lending.WithTokenStore(store.TokenStore)))
		}()
		synctest.Wait()
		loads := 0
		store.at("load", func(context.Context) error { loads++; return nil })
		require.NoError(t, read(t.Context(), fake.SignIn(t, service, nil, lending.WithTokenStore(store))))
		assert.InDelta(t, 95, loads, 35)
		assert.Equal(t, 1, service.Arrived(fake.LoginRoute))
	})
}

// A sign-in whose lease was lost ends, also if the process has the lease again afterwards:
// the process that had it in between may have signed in.
func TestLeaseLostAndRegained(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		store := newHookedStore()
		asked, ended, again := make(chan struct{}), make(chan error, 1), new(atomic.Bool)
		client := fake.SignIn(t, service, func(c *lending.Credentials) {
			c.TwoFactor = func(ctx context.Context, _ lending.Challenge) (string, error) {
				if again.Swap(true) {
					return service.TwoFactorCode(lendingtest.Username), nil
				}
				close(asked)
				<-ctx.Done()
				ended <- ctx.Err()
				return "", ctx.Err()
			}
		}, lending.WithTokenStore(store))
		go func() { _ = read(t.Context(), client) }()
		<-asked
		store.fail("", errDown)
		bubble.Elapse(10 * time.Second) // the lease ends
		other := fake.SignIn(t, service, nil, lending.WithTokenStore(store.TokenStore))
		require.NoError(t, read(t.Context(), other))
		require.Empty(t, ended, "it cannot know")
		store.before(nil)
		bubble.Elapse(10 * time.Second)
		require.Len(t, ended, 1)
		require.NoError(t, read(t.Context(), client))
		assert.Equal(t, 2, service.Arrived(fake.LoginRoute), "the token of the other process is used")
	})
}

// When a process was killed in the middle of a sign-in the others do not wait long, and while
// one lives that takes minutes nobody else signs in, though the store is slow and at times fails.
func TestHolderOfTheLease(t *testing.T) {
	runInBubble(t, "is killed", func(t *testing.T, service *lendingtest.Service) {
		store := newHookedStore()
		killed := fake.SignIn(t, service, nil, lending.WithTokenStore(store))
		service.Fail(fake.LoginRoute, lendingtest.Fault{DelayBefore: time.Hour})
		go func() { _, _, _ = takeToken(t.Context(), killed) }()
		bubble.Elapse(time.Second)
		store.fail("", errDown) // for it
		_, waited, err := takeToken(t.Context(),
			fake.SignIn(t, service, nil, lending.WithTokenStore(store.TokenStore)))
		require.NoError(t, err)
		assert.LessOrEqual(t, waited, 8*time.Second)
	})
	runInBubble(t, "lives", func(t *testing.T, service *lendingtest.Service) {
		store, steps := newHookedStore(), new(atomic.Int32)
		store.before(func(ctx context.Context, step string) error {
			bubble.Elapse(time.Second)
			if step == "acquire" && steps.Add(1)%3 == 2 {
				return errDown
			}
			return ctx.Err()
		})
		service.Fail(fake.TwoFactorRoute, lendingtest.Fault{DelayBefore: 100 * time.Second})
		holder := fake.SignIn(t, service, nil, lending.WithTokenStore(store))
		go func() { _, _, _ = takeToken(t.Context(), holder) }()
		bubble.Elapse(3 * time.Second)
		_, waited, err := takeToken(t.Context(),
			fake.SignIn(t, service, nil, lending.WithTokenStore(store.TokenStore)))
		require.NoError(t, err)
		assert.GreaterOrEqual(t, waited, 95*time.Second)
		assert.Equal(t, 1, service.Arrived(fake.LoginRoute))
	})
}

// Whoever takes the lease for a refresh and dies must leave the others time for theirs.
func TestLeaseOfARefreshIsShort(t *testing.T) {
	const life = 20 * time.Second // it is used for 18 s
	withStore(t, func(t *testing.T, service *lendingtest.Service, store *hookedStore, client *lending.Client) {
		require.NoError(t, read(t.Context(), client))
		store.longest = 0
		bubble.Elapse(16 * time.Second)
		require.NoError(t, read(t.Context(), client))
		synctest.Wait()
		assert.Equal(t, 1, service.Arrived(fake.RefreshRoute))
		assert.LessOrEqual(t, store.longest, time.Second/2)
	}, lendingtest.WithTokenLifetime(life))
}

// Of two tokens that were got with the store that of the later lease is the newer, also if
// the clock of whoever got it is behind.
func TestLaterLeaseWinsWhateverTheClocksSay(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		store, other := lending.NewMemoryTokenStore(), lending.NewMemoryTokenStore()
		client := fake.SignIn(t, service, nil, lending.WithTokenStore(store))
		require.NoError(t, read(t.Context(), client))
		bubble.Elapse(time.Minute)
		behind := tokenIn(t, fake.SignIn(t, service, nil, lending.WithTokenStore(other)))
		later, err := other.Load(t.Context())
		require.NoError(t, err)
		later.Data = lending.NewSecret(string(ahead(t, []byte(later.Data.Reveal()), -5*time.Minute, "issued",
			"expires")))
		require.NoError(t, store.Save(t.Context(), later))
		bubble.Elapse(50 * time.Minute)
		require.NoError(t, read(t.Context(), client)) // looks into the store before it refreshes
		synctest.Wait()
		got := tokenIn(t, client)
		assert.Equal(t, behind.Value.Reveal(), got.Value.Reveal())
	})
}

// A process that stood still between taking the lease and its request may ask for a token when
// another process has the lease already. The token of the later lease wins in the store and in
// both processes, though the other token is the younger one, and whichever is kept first.
func TestTokenAskedForAfterTheLeaseWasLost(t *testing.T) {
	for _, first := range []string{"earlier lease", "later lease"} {
		runInBubble(t, first+" keeps its token first", func(t *testing.T, service *lendingtest.Service) {
			shared := lending.NewMemoryTokenStore()
			stopped, keeping := newHookedStore(), newHookedStore()
			stopped.TokenStore, keeping.TokenStore = shared, shared
			var resumed chan struct{}
			slow := fake.SignIn(t, service, nil, lending.WithTokenStore(stopped),
				lending.WithHTTPClient(&http.Client{
					Transport: wire.RoundTripper(func(r *http.Request) (*http.Response, error) {
						if resumed != nil && strings.HasSuffix(r.URL.Path, "/refresh-token") {
							<-resumed
						}
						return service.Transport().RoundTrip(r)
					}),
				}))
			fast := fake.SignIn(t, service, nil, lending.WithTokenStore(keeping))
			require.NoError(t, read(t.Context(), slow))
			require.NoError(t, read(t.Context(), fast))
			bubble.Elapse(45*time.Second + 100*time.Millisecond)

			resumed = make(chan struct{})
			require.NoError(t, read(t.Context(), slow)) // it has the lease, and stands still
			synctest.Wait()
			storeResumed := make(chan struct{})
			stopped.before(func(context.Context, string) error { <-storeResumed; return nil })
			kept := make(chan struct{})
			keeping.at("save", func(context.Context) error { <-kept; return nil })
			for service.Arrived(fake.RefreshRoute) == 0 { // the lease ends
				require.NoError(t, read(t.Context(), fast))
				bubble.Elapse(100 * time.Millisecond)
			}
			later := tokenIn(t, fast)
			if first == "later lease" {
				close(kept)
				synctest.Wait()
			}
			bubble.Elapse(time.Second)
			close(resumed)
			synctest.Wait() // it refreshes before it finds that its lease is lost, which would keep it from that
			require.Equal(t, 2, service.Arrived(fake.RefreshRoute))
			close(storeResumed)
			synctest.Wait()
			if first == "earlier lease" {
				close(kept)
				synctest.Wait()
			}
			fresh := tokenIn(t, fake.SignIn(t, service, nil, lending.WithTokenStore(shared)))
			assert.Equal(t, later.Value.Reveal(), fresh.Value.Reveal())
			meet := false
			for range 60 { // until it is time to refresh
				bubble.Elapse(time.Second)
				a := tokenIn(t, slow)
				b := tokenIn(t, fast)
				meet = meet || a.Value.Reveal() == b.Value.Reveal()
			}
			assert.True(t, meet, "both have the token of the later lease, or one that came of it")
			assert.Equal(t, 1, service.Arrived(fake.LoginRoute))
		}, lendingtest.WithTokenLifetime(time.Minute))
	}
}

func TestTokenThatCameBeforeTheLease(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		shared := lending.NewMemoryTokenStore()
		fast := fake.SignIn(t, service, nil, lending.WithTokenStore(shared))
		store := &hookedStore{TokenStore: shared}
		store.at("acquire", func(context.Context) error { // only after another process was at work
			store.before(nil)
			return read(t.Context(), fast)
		})
		require.NoError(t, read(t.Context(), fake.SignIn(t, service, nil, lending.WithTokenStore(store))))
		assert.Equal(t, 1, service.Arrived(fake.LoginRoute))
	})
}

// A lease is free after the work: no renewal in progress takes the lease again.
func TestLeaseIsReleasedAfterItsRenewal(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		store, acquired := newHookedStore(), new(atomic.Int32)
		store.at("acquire", func(context.Context) error {
			if acquired.Add(1) == 2 {
				bubble.Elapse(time.Second)
			}
			return nil
		})
		service.Fail(fake.LoginRoute, lendingtest.Fault{DelayBefore: 2 * time.Second})
		require.NoError(t, read(t.Context(), fake.SignIn(t, service, nil, lending.WithTokenStore(store))))
		bubble.Elapse(time.Second)
		require.EqualValues(t, 2, acquired.Load())
		_, err := store.TokenStore.Acquire(t.Context(), "another", time.Second)
		require.NoError(t, err)
	})
}
