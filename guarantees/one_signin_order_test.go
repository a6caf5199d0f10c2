package guarantees_test

import (
	"context"
	"net/http"
	"strings"
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

// Of two tokens that were got with the store that of the later lease is the newer, also if
// the clock of whoever got it is behind.
func TestLaterLeaseWinsWhateverTheClocksSay(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		store, other := lending.NewMemoryTokenStore(), lending.NewMemoryTokenStore()
		client := fake.SignIn(t, service, nil, lending.WithTokenStore(store))
		require.NoError(t, read(t.Context(), client))
		bubble.Elapse(time.Minute)
		behind, _, err := takeToken(t.Context(), fake.SignIn(t, service, nil, lending.WithTokenStore(other)))
		require.NoError(t, err)
		later, err := other.Load(t.Context())
		require.NoError(t, err)
		later.Data = lending.NewSecret(string(ahead(t, []byte(later.Data.Reveal()), -5*time.Minute, "issued", "expires")))
		require.NoError(t, store.Save(t.Context(), later))
		bubble.Elapse(50 * time.Minute)
		require.NoError(t, read(t.Context(), client)) // looks into the store before it refreshes
		synctest.Wait()
		got, _, err := takeToken(t.Context(), client)
		require.NoError(t, err)
		assert.Equal(t, behind.Value.Reveal(), got.Value.Reveal())
	})
}

// A process that stood still between taking the lease and its request may ask for a token when
// another process has the lease already. The token of the later lease wins in the store and in
// both processes, though the other token is the younger one, and whichever is kept first.
func TestTokenAskedForAfterTheLeaseWasLost(t *testing.T) {
	for _, first := range []string{"earlier lease", "later lease"} {
		t.Run(first+" keeps its token first", func(t *testing.T) {
			fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
				shared := lending.NewMemoryTokenStore()
				stopped, keeping := newHookedStore(), newHookedStore()
				stopped.TokenStore, keeping.TokenStore = shared, shared
				var resumed chan struct{}
				slow := fake.SignIn(t, service, nil, lending.WithTokenStore(stopped), lending.WithHTTPClient(&http.Client{
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
				stopped.before(func(context.Context, string) error {
					<-resumed
					return nil
				})
				kept := make(chan struct{})
				keeping.before(func(_ context.Context, step string) error {
					if step == "save" {
						<-kept
					}
					return nil
				})
				for service.Arrived(fake.RefreshRoute) == 0 { // the lease ends
					require.NoError(t, read(t.Context(), fast))
					bubble.Elapse(100 * time.Millisecond)
				}
				later, _, err := takeToken(t.Context(), fast)
				require.NoError(t, err)
				if first == "later lease" {
					close(kept)
					synctest.Wait()
				}
				bubble.Elapse(time.Second)
				close(resumed)
				synctest.Wait()
				require.Equal(t, 2, service.Arrived(fake.RefreshRoute))
				if first == "earlier lease" {
					close(kept)
					synctest.Wait()
				}
				fresh, _, err := takeToken(t.Context(), fake.SignIn(t, service, nil, lending.WithTokenStore(shared)))
				require.NoError(t, err)
				assert.Equal(t, later.Value.Reveal(), fresh.Value.Reveal())
				meet := false
				for range 60 { // until it is time to refresh
					bubble.Elapse(time.Second)
					a, _, err := takeToken(t.Context(), slow)
					require.NoError(t, err)
					b, _, err := takeToken(t.Context(), fast)
					require.NoError(t, err)
					meet = meet || a.Value.Reveal() == b.Value.Reveal()
				}
				assert.True(t, meet, "both have the token of the later lease, or one that came of it")
				assert.Equal(t, 1, service.Arrived(fake.LoginRoute))
			}, lendingtest.WithTokenLifetime(time.Minute))
		})
	}
}
