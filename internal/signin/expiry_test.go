package signin_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
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

// A Date that is more than a day off says nothing of the expiry.
func TestAbsurdDate(t *testing.T) {
	for _, date := range []string{
		"Thu, 01 Jan 1970 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT",
		"Fri, 31 Dec 1999 23:59:59 GMT",
	} {
		runInBubble(t, date, func(t *testing.T, service *lendingtest.Service) {
			start := time.Now() // 2000-01-01
			bubble.Elapse(24 * time.Hour)
			answer := func(body string) http.HandlerFunc {
				return func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Date", date)
					wire.Answer(http.StatusOK, body)(w, r)
				}
			}
			service.Answer(fake.LoginRoute,
				answer(`{"requiresTwoFactor":false,"token":"first","expiresUTC":"2000-01-02T01:00:00Z"}`))
			second := jwt(fmt.Sprintf(`{"exp":%d}`, start.Add(26*time.Hour).Unix()))
			service.Answer(fake.RefreshRoute, answer(fmt.Sprintf("%q", second)))
			client := fake.SignIn(t, service, nil)
			got := tokenIn(t, client)
			assert.True(t, start.Add(25*time.Hour).Equal(got.Expires))
			bubble.Elapse(51 * time.Minute)
			tokenIn(t, client)
			synctest.Wait()
			got = tokenIn(t, client)
			assert.Equal(t, second, got.Value.Reveal())
			assert.True(t, start.Add(26*time.Hour).Equal(got.Expires))
			assert.Equal(t, 1, service.Arrived(fake.RefreshRoute))
		})
	}
}

// Clocks with less than two seconds between them count as equal, since Date has whole seconds.
func TestExpiryIsOnOurClock(t *testing.T) {
	const day = 24 * time.Hour
	for behind, correction := range map[time.Duration]time.Duration{
		time.Second: 0, -time.Second: 0, 2 * time.Second: 2 * time.Second, -2 * time.Second: -2 * time.Second,
		day: day, -day: -day, day + time.Second: 0, -day - time.Second: 0,
	} {
		runInBubble(t, behind.String(), func(t *testing.T, service *lendingtest.Service) {
			expires := time.Now().Add(48 * time.Hour)
			service.Answer(fake.LoginRoute, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Date", time.Now().Add(-behind).UTC().Format(http.TimeFormat))
				fmt.Fprintf(w, `{"requiresTwoFactor":false,"token":"t","expiresUTC":%q}`, expires.Format(time.RFC3339))
			})
			assert.Equal(t, correction, tokenIn(t, fake.SignIn(t, service, nil)).Expires.Sub(expires))
		})
	}
}

// What was written while the clock was ahead holds nobody longer than it was meant to.
func TestClockWasAhead(t *testing.T) {
	runInBubble(t, "lease", func(t *testing.T, service *lendingtest.Service) {
		path := filepath.Join(t.TempDir(), "token")
		store := fileStore(t, path)
		_, err := store.Acquire(t.Context(), "gone", 10*time.Second)
		require.NoError(t, err)
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, ahead(t, text, time.Hour, "until"), 0o600))
		_, err = store.Acquire(t.Context(), "next", time.Second)
		require.ErrorIs(t, err, lending.ErrLeaseHeld, "its owner may live")
		start := time.Now()
		require.NoError(t, read(t.Context(), fake.SignIn(t, service, nil, lending.WithTokenStore(store))))
		assert.InDelta(t, 10*time.Second, time.Since(start), float64(2*time.Second))
	})
	change := func(t *testing.T, store lending.TokenStore, names ...string) {
		t.Helper()
		kept, err := store.Load(t.Context())
		require.NoError(t, err)
		kept.Data = lending.NewSecret(string(ahead(t, []byte(kept.Data.Reveal()), time.Hour, names...)))
		require.NoError(t, store.Save(t.Context(), kept))
	}
	runInBubble(t, "failure", func(t *testing.T, service *lendingtest.Service) {
		store := encrypted(t, lending.NewMemoryTokenStore(), 1)
		wrong := func(c *lending.Credentials) { c.Password = lending.NewSecret("wrong") }
		require.Error(t, read(t.Context(), fake.SignIn(t, service, wrong, lending.WithTokenStore(store))))
		change(t, store, "until")
		client, start := fake.SignIn(t, service, wrong, lending.WithTokenStore(store)), time.Now()
		for service.Arrived(fake.LoginRoute) == 1 {
			require.Error(t, read(t.Context(), client))
			bubble.Elapse(time.Second)
		}
		assert.InDelta(t, time.Minute, time.Since(start), float64(2*time.Second))
	})
	runInBubble(t, "token", func(t *testing.T, service *lendingtest.Service) {
		store := encrypted(t, lending.NewMemoryTokenStore(), 1)
		require.NoError(t, read(t.Context(), fake.SignIn(t, service, nil, lending.WithTokenStore(store))))
		change(t, store, "issued", "expires")
		client := fake.SignIn(t, service, nil, lending.WithTokenStore(store))
		got := tokenIn(t, client)
		assert.Equal(t, time.Hour, time.Until(got.Expires))
		for range 120 {
			require.NoError(t, read(t.Context(), client))
			bubble.Elapse(time.Minute)
		}
		assert.Equal(t, 1, service.Arrived(fake.LoginRoute))
	})
}

// A token that comes with its last moments is not used: the service's Date tells its life
// only to the second.
func TestTokenThatNearlyEndedOnTheWay(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		delay := 57 * time.Second
		client := fake.SignIn(t, service, nil,
			lending.WithHTTPClient(&http.Client{Transport: wire.RoundTripper(func(r *http.Request) (*http.Response,
				error,
			) {
				answered, err := service.Transport().RoundTrip(r)
				if strings.Contains(r.URL.Path, "two-factor") {
					bubble.Elapse(delay)
					delay = 0
				}
				return answered, err
			})}))
		require.NoError(t, read(t.Context(), client))
		assert.Equal(t, 2, service.Executed(fake.LoginRoute))
	}, lendingtest.WithTokenLifetime(time.Minute))
}

// The life of a refreshed token is the life of the token before. A slow answer to the sign-in
// must not shorten all of them.
func TestSlowSignInShortensNoLaterToken(t *testing.T) {
	t.Parallel()
	for _, skew := range []time.Duration{0, 3 * time.Hour, -3 * time.Hour} {
		t.Run(skew.String(), func(t *testing.T) {
			const life = 5 * time.Second
			fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
				service.Advance(skew)
				way := &slowAnswers{service.Transport(), 4400 * time.Millisecond}
				store := lending.NewMemoryTokenStore()
				client := fake.SignIn(t, service, trusted, lending.WithHTTPClient(&http.Client{Transport: way}),
					lending.WithTokenStore(store))
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

// Two thirds of 150 years are more nanoseconds than an int64 holds, if they are multiplied first.
func TestTokenThatLivesForCenturies(t *testing.T) {
	for _, expires := range []string{
		"2140-01-01T00:00:00", "2160-01-01T00:00:00", "2239-01-01T00:00:00",
		"9999-12-31T23:59:59",
	} {
		runInBubble(t, expires[:4], func(t *testing.T, service *lendingtest.Service) {
			scripted(service, expires, "second")
			client := fake.SignIn(t, service, nil)
			for range 1000 {
				tokenIn(t, client)
				bubble.Elapse(time.Second)
			}
			assert.Equal(t, 1, service.Arrived(fake.LoginRoute))
			assert.Zero(t, service.Arrived(fake.RefreshRoute))
		})
	}
}

// A store that hangs only when it saves must not keep the lease from the other processes until
// their token has expired.
func TestSavingDoesNotUseUpTheLifeOfTheToken(t *testing.T) {
	const life = 20 * time.Second // it is used for 18 s, and refreshed after 12 to 15
	withStore(t, func(t *testing.T, service *lendingtest.Service, store *hookedStore, client *lending.Client) {
		took := time.Duration(0)
		require.NoError(t, read(t.Context(), client))
		bubble.Elapse(15 * time.Second)
		store.at("save", func(ctx context.Context) error {
			start := time.Now()
			<-ctx.Done()
			took = time.Since(start)
			return ctx.Err()
		})
		require.NoError(t, read(t.Context(), client))
		bubble.Elapse(6 * time.Second)
		synctest.Wait()
		assert.Equal(t, 1, service.Arrived(fake.RefreshRoute))
		assert.NotZero(t, took)
		assert.LessOrEqual(t, took, time.Second/2)
	}, lendingtest.WithTokenLifetime(life))
}

func TestExpiryOfARefreshedToken(t *testing.T) {
	start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // of every bubble
	for _, test := range []struct {
		name      string
		refreshed string
		life      time.Duration // after the refresh at minute 55
	}{
		{"opaque", "second", time.Hour},
		{"JWT", jwt(fmt.Sprintf(`{"exp":%d}`, start.Add(5*time.Hour).Unix())), 5*time.Hour - 55*time.Minute},
		{"JWT without exp", jwt(`{"sub":"x"}`), time.Hour},
		{"JWT that has expired", jwt(fmt.Sprintf(`{"exp":%d}`, start.Unix())), time.Hour},
		{"JWT of nonsense", "a.!.c", time.Hour},
	} {
		runInBubble(t, test.name, func(t *testing.T, service *lendingtest.Service) {
			scripted(service, "2000-01-01T01:06:00", test.refreshed)
			client := fake.SignIn(t, service, nil)
			first := tokenIn(t, client)
			assert.Equal(t, start.Add(66*time.Minute), first.Expires)
			bubble.Elapse(55 * time.Minute) // 5/6
			_, _, _ = takeToken(t.Context(), client)
			synctest.Wait()
			second := tokenIn(t, client)
			require.Equal(t, test.refreshed, second.Value.Reveal())
			want := test.life
			if want == time.Hour {
				want = 66 * time.Minute // the life seen at the sign-in
			}
			assert.Equal(t, want, time.Until(second.Expires))
		})
	}
}

// A token that is about to expire might do so on the way.
func TestTokenIsNotUsedToItsLastSecond(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		client := fake.SignIn(t, service, nil)
		service.Fail(fake.RefreshRoute, lendingtest.Fault{Status: http.StatusServiceUnavailable, Times: -1})
		first := tokenIn(t, client)
		bubble.Elapse(time.Hour - 11*time.Second)
		same := tokenIn(t, client)
		assert.Equal(t, first.Value.Reveal(), same.Value.Reveal())
		bubble.Elapse(2 * time.Second)
		next := tokenIn(t, client)
		assert.NotEqual(t, first.Value.Reveal(), next.Value.Reveal())
	})
}

// A sign-in may tell the end of its token in the token alone, or not at all: then the token is used
// until it is refused.
func TestSignInWithoutAnExpiry(t *testing.T) {
	exp := time.Date(2000, 1, 1, 1, 0, 0, 0, time.UTC) // an hour after the start of every bubble
	for _, test := range []struct {
		name, token, expires string
		want                 time.Time
	}{
		{"JWT", jwt(fmt.Sprintf(`{"exp":%d}`, exp.Unix())), "", exp},
		{"zero time", "first", "0001-01-01T00:00:00", time.Time{}},
		{"empty", "first", "", time.Time{}},
		{"no time", "first", "soon", time.Time{}},
	} {
		runInBubble(t, test.name, func(t *testing.T, service *lendingtest.Service) {
			service.Answer(fake.LoginRoute, wire.Answer(http.StatusOK, fmt.Sprintf(
				`{"requiresTwoFactor":false,"token":%q,"expiresUTC":%q}`, test.token, test.expires)))
			client := fake.SignIn(t, service, nil)
			require.True(t, test.want.Equal(tokenIn(t, client).Expires))
			if !test.want.IsZero() {
				return
			}
			for range 100 {
				require.Zero(t, tokenIn(t, client).Expires)
				bubble.Elapse(time.Hour)
			}
			assert.Zero(t, service.Arrived(fake.RefreshRoute))
			client.Session().Invalidate(tokenIn(t, client))
			tokenIn(t, client)
			assert.Equal(t, 2, service.Arrived(fake.LoginRoute), "used until it is refused")
		})
	}
}
