package guarantees_test

import (
	"context"
	"errors"
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

// An outage of a second must page nobody: a process that learns of a failed sign-in from the
// store calls it by the same kind as the process that tried.
func TestReplicasAgreeWhetherAPersonIsNeeded(t *testing.T) {
	status := func(code int) lendingtest.Fault { return lendingtest.Fault{Status: code, Body: []byte{}} }
	for _, test := range []struct {
		name        string
		fault       lendingtest.Fault
		credentials func(*lending.Credentials)
		free        int // failures that cost no pause
		person      bool
	}{
		{name: "500", fault: status(http.StatusInternalServerError)},
		{name: "503", fault: status(http.StatusServiceUnavailable)},
		{name: "404 of a proxy", fault: status(http.StatusNotFound)},
		{name: "429", fault: lendingtest.Fault{Status: http.StatusTooManyRequests, RetryAfter: time.Minute}},
		{name: "service closed", fault: lendingtest.Fault{ResetBefore: true}},
		{name: "no code wanted yet", credentials: func(c *lending.Credentials) { c.TwoFactor = nil }, person: true},
		{name: "nobody can be asked", credentials: func(c *lending.Credentials) {
			c.TwoFactor = func(context.Context, lending.Challenge) (string, error) { return "", errors.New("no telephone") }
		}, free: 3, person: true},
		{name: "panic", credentials: func(c *lending.Credentials) {
			c.TwoFactor = func(context.Context, lending.Challenge) (string, error) { panic("none of a person's") }
		}, free: 3},
		{name: "wrong password", credentials: func(c *lending.Credentials) { c.Password = lending.NewSecret("wrong") }},
	} {
		t.Run(test.name, func(t *testing.T) {
			fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
				service.Fail(fake.LoginRoute, test.fault)
				store := lending.NewMemoryTokenStore()
				client := fake.SignIn(t, service, test.credentials, lending.WithTokenStore(store))
				tried := read(t.Context(), client)
				for range test.free {
					tried = read(t.Context(), client)
				}
				bubble.Elapse(time.Millisecond)
				learned := read(t.Context(), fake.SignIn(t, service, test.credentials, lending.WithTokenStore(store)))
				require.ErrorContains(t, learned, "not tried again before")
				assert.Equal(t, 1+test.free, service.Arrived(fake.LoginRoute))
				for who, err := range map[string]error{"tried": tried, "learned": learned} {
					assert.Equal(t, test.person, errors.Is(err, lending.ErrSignInRequired), "%s: %v", who, err)
					assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err), "%s: %v", who, err)
				}
			})
		})
	}
}

// A closed client, and a token that was refused as soon as it came, need no person either.
func TestNoPersonIsNeeded(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		client := fake.SignIn(t, service, nil)
		for range 5 {
			token, _, err := takeToken(t.Context(), client)
			if err != nil {
				require.ErrorContains(t, err, "refused")
				require.NotErrorIs(t, err, lending.ErrSignInRequired)
			}
			client.Session().Invalidate(token)
		}
		require.NoError(t, client.Close())
		err := read(t.Context(), client)
		require.ErrorContains(t, err, "closed")
		require.NotErrorIs(t, err, lending.ErrSignInRequired)
		_, _, err = takeToken(t.Context(), client)
		assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
	})
}

// A pause grows with each failure in a row, up to its limit.
func TestPausesGrow(t *testing.T) {
	for _, test := range []struct {
		name  string
		fault lendingtest.Fault
		in    time.Duration
		least int
		most  int
	}{
		{"outage", lendingtest.Fault{Status: http.StatusServiceUnavailable, Times: -1}, 10 * time.Minute, 14, 16}, // 1, 2, 4 … 60 s
		{"refusal", lendingtest.Fault{Status: http.StatusBadRequest, Times: -1}, 5 * time.Hour, 9, 10},            // 1, 2, 4 … 60 min
	} {
		t.Run(test.name, func(t *testing.T) {
			fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
				service.Fail(fake.LoginRoute, test.fault)
				client := fake.SignIn(t, service, nil)
				for start := time.Now(); time.Since(start) < test.in; bubble.Elapse(time.Second) {
					require.Error(t, read(t.Context(), client))
				}
				arrived := service.Arrived(fake.LoginRoute)
				assert.True(t, test.least <= arrived && arrived <= test.most, "%d sign-ins", arrived)
			})
		})
	}
}

// A store that is away is asked every second at first and every five seconds later.
func TestStoreIsAskedLessAndLess(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		store := newHookedStore()
		loads := 0
		store.before(func(context.Context, string) error { loads++; return errDown })
		client := fake.SignIn(t, service, nil, lending.WithTokenStore(store))
		for start := time.Now(); time.Since(start) < time.Minute; bubble.Elapse(50 * time.Millisecond) {
			require.Error(t, read(t.Context(), client))
		}
		assert.InDelta(t, 14, loads, 1) // after 0, 1, 3, 7, 12 … s
	})
}

// A process that waits for another's sign-in asks the store every second after a while.
func TestWaitingForASignInSparesTheStore(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		store := newHookedStore()
		service.Fail(fake.TwoFactorRoute, lendingtest.Fault{Delay: 90 * time.Second})
		go func() {
			_, _, _ = takeToken(t.Context(), fake.SignIn(t, service, nil, lending.WithTokenStore(store.TokenStore)))
		}()
		synctest.Wait()
		loads := 0
		store.before(func(_ context.Context, step string) error {
			if step == "load" {
				loads++
			}
			return nil
		})
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
		asked, ended := make(chan struct{}), make(chan error, 1)
		client := fake.SignIn(t, service, func(c *lending.Credentials) {
			c.TwoFactor = func(ctx context.Context, _ lending.Challenge) (string, error) {
				if asked == nil {
					return service.TwoFactorCode(lendingtest.Username), nil
				}
				close(asked)
				asked = nil
				<-ctx.Done()
				ended <- ctx.Err()
				return "", ctx.Err()
			}
		}, lending.WithTokenStore(store))
		go func() { _ = read(t.Context(), client) }()
		<-asked
		store.before(func(context.Context, string) error { return errDown })
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
