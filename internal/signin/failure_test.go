package signin_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
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
			c.TwoFactor = func(context.Context, lending.Challenge) (string, error) {
				return "",
					errors.New("no telephone")
			}
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
				for _, err := range []error{tried, learned} {
					assert.Equal(t, test.person, errors.Is(err, lending.ErrSignInRequired), err)
					assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err), err)
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
		client.Close()
		err := read(t.Context(), client)
		require.ErrorContains(t, err, "closed")
		require.NotErrorIs(t, err, lending.ErrSignInRequired)
		_, _, err = takeToken(t.Context(), client)
		assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
	})
}

// A pause grows with each failure in a row, up to its limit.
func TestPausesGrow(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		fault lendingtest.Fault
		in    time.Duration
		least int
		most  int
	}{
		// 1, 2, 4 … 60 s
		{"outage", lendingtest.Fault{Status: http.StatusServiceUnavailable, Times: -1}, 10 * time.Minute, 14, 16},
		// 1, 2, 4 … 60 min
		{"refusal", lendingtest.Fault{Status: http.StatusBadRequest, Times: -1}, 5 * time.Hour, 9, 10},
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

// Of a refused sign-in the others learn what the service has said, and when it is tried again.
func TestReplicasLearnWhyASignInFailed(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		store := lending.NewMemoryTokenStore()
		wrong := func(c *lending.Credentials) { c.Password = lending.NewSecret("wrong-password") }
		first := read(t.Context(), fake.SignIn(t, service, wrong, lending.WithTokenStore(store)))
		bubble.Elapse(10 * time.Second)
		err := read(t.Context(), fake.SignIn(t, service, wrong, lending.WithTokenStore(store)))
		require.ErrorContains(t, err,
			"failed in another process: POST /api/Authenication/login: 400 Bad Request: rejected: not tried again "+
				"before")
		assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
		var call, here, there *lending.Error
		require.ErrorAs(t, err, &call)
		assert.Equal(t, 50*time.Second, call.RetryAfter)
		require.ErrorAs(t, errors.Unwrap(first), &here)
		require.ErrorAs(t, errors.Unwrap(err), &there)
		assert.Equal(t, []any{here.Method, here.Route, here.StatusCode, here.Outcome},
			[]any{there.Method, there.Route, there.StatusCode, there.Outcome})
		kept, err := store.Load(t.Context())
		require.NoError(t, err)
		for _, secret := range []string{"wrong-password", lendingtest.Username} {
			assert.NotContains(t, kept.Data.Reveal(), secret)
		}
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
			Status: http.StatusOK, Body: []byte(`{"requiresTwoFactor":false,"token":""}`),
			ContentType: "application/json", Times: -1,
		})
		for range 59 {
			require.Error(t, read(t.Context(), client))
			bubble.Elapse(time.Second)
		}
		assert.Equal(t, 1, service.Arrived(fake.LoginRoute))
	})
}

// A wrong password that every replica tried would lock the account.
func TestReplicasShareAFailure(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		store := lending.NewMemoryTokenStore()
		for range 8 {
			client := fake.SignIn(t, service, func(c *lending.Credentials) { c.Password = lending.NewSecret("wrong") },
				lending.WithTokenStore(store))
			require.Error(t, read(t.Context(), client))
		}
		assert.Equal(t, 1, service.Arrived(fake.LoginRoute))
	})
}

func TestEndpointDown(t *testing.T) {
	for _, test := range []struct {
		name  string
		fault lendingtest.Fault
	}{
		{"refuses", lendingtest.Fault{ResetBefore: true, Times: -1}},
		{"hangs", lendingtest.Fault{DelayBefore: time.Hour, Times: -1}},
		{"fails", lendingtest.Fault{Status: http.StatusServiceUnavailable, Times: -1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
				client := fake.SignIn(t, service, nil)
				service.Fail(fake.LoginRoute, test.fault)
				var all sync.WaitGroup
				for range 100 {
					all.Go(func() {
						for range 100 {
							ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
							_, waited, err := takeToken(ctx, client)
							cancel()
							assert.Error(t, err)
							assert.LessOrEqual(t, waited, 500*time.Millisecond)
							bubble.Elapse(600*time.Millisecond - waited)
						}
					})
				}
				all.Wait()
				assert.LessOrEqual(t, service.Arrived(fake.LoginRoute), 9, "in a minute, for 10,000 callers")
				service.ClearFaults()
				bubble.Elapse(time.Minute)
				tokenIn(t, client)
			})
		})
	}
}

func TestRefusedPasswordIsNotRepeated(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		client := fake.SignIn(t, service, func(c *lending.Credentials) { c.Password = lending.NewSecret("wrong") })
		for range 3600 {
			err := read(t.Context(), client)
			require.Error(t, err)
			require.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
			bubble.Elapse(time.Second)
		}
		assert.Equal(t, 6, service.Arrived(fake.LoginRoute), "after 0, 1, 3, 7, 15 and 31 minutes")
		require.ErrorContains(t, read(t.Context(), client), "not tried again before")
		require.Error(t, client.Session().SignIn(t.Context()))
		assert.Equal(t, 7, service.Arrived(fake.LoginRoute), "somebody has asked for it")
	})
}

func TestSignInIsRateLimited(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		client := fake.SignIn(t, service, nil)
		service.Fail(fake.LoginRoute, lendingtest.Fault{
			Status:     http.StatusTooManyRequests,
			RetryAfter: 90 * time.Second,
		})
		for range 89 {
			require.Error(t, read(t.Context(), client))
			bubble.Elapse(time.Second)
		}
		assert.Equal(t, 1, service.Arrived(fake.LoginRoute))
		bubble.Elapse(2 * time.Second)
		require.NoError(t, read(t.Context(), client))
	})
}

func TestEmptyTokenIsAFailedSignIn(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		client := fake.SignIn(t, service, nil)
		service.Fail(fake.TwoFactorRoute, lendingtest.Fault{
			Status: http.StatusOK, Body: []byte(`{"requiresTwoFactor":false,"token":""}`),
			ContentType: "application/json", Times: -1,
		})
		_, _, err := takeToken(t.Context(), client)
		require.ErrorIs(t, err, lending.ErrSignInRequired)
		assert.Equal(t, 3, service.Arrived(fake.TwoFactorRoute))
	})
}
