package guarantees_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/lendingtest"
)

// read makes a call that needs a token, for a customer that the service does not have.
func read(ctx context.Context, client *lending.Client) error {
	_, err := client.Applications.ListByCustomer(ctx, catalog.OtherCustomer)
	if errors.Is(err, lending.ErrNotFound) {
		return nil
	}
	return err
}

// takeToken asks the session and returns how long that took.
func takeToken(ctx context.Context, client *lending.Client) (lending.Token, time.Duration, error) {
	start := time.Now()
	got, err := client.Session().Token(ctx)
	return got, time.Since(start), err
}

func TestTokenIsRefreshedAheadOfExpiry(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		client := fake.SignIn(t, service, nil)
		for range 24 * 60 {
			require.NoError(t, read(t.Context(), client))
			bubble.Elapse(time.Minute)
		}
		assert.Equal(t, 1, service.Arrived(fake.LoginRoute), "one code for a whole day")
		assert.InDelta(t, 32, service.Arrived(fake.RefreshRoute), 4)
		for _, request := range service.Requests() {
			assert.NotEqual(t, http.StatusUnauthorized, request.Status)
		}
	})
}

func TestNobodyWaitsForARefresh(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		client := fake.SignIn(t, service, nil)
		first, _, err := takeToken(t.Context(), client)
		require.NoError(t, err)
		bubble.Elapse(50*time.Minute + time.Second)
		service.Fail(fake.RefreshRoute, lendingtest.Fault{Delay: 20 * time.Second})
		var lost, blocked atomic.Int32
		var all sync.WaitGroup
		for range 1000 {
			all.Go(func() {
				start := time.Now()
				if read(t.Context(), client) != nil {
					lost.Add(1)
				}
				if time.Since(start) > 0 {
					blocked.Add(1)
				}
			})
		}
		all.Wait()
		assert.Zero(t, lost.Load())
		assert.Zero(t, blocked.Load())
		bubble.Elapse(time.Minute)
		assert.Equal(t, 1, service.Arrived(fake.RefreshRoute))
		assert.Equal(t, 1, service.Arrived(fake.LoginRoute))
		second, _, err := takeToken(t.Context(), client)
		require.NoError(t, err)
		assert.NotEqual(t, first.Value.Reveal(), second.Value.Reveal())
	})
}

func TestThousandCallersAfterExpiry(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		client := fake.SignIn(t, service, nil)
		require.NoError(t, read(t.Context(), client))
		bubble.Elapse(2 * time.Hour)
		service.Fail(fake.LoginRoute, lendingtest.Fault{Delay: time.Second})
		var all sync.WaitGroup
		for range 1000 {
			all.Go(func() { assert.NoError(t, read(t.Context(), client)) })
		}
		all.Wait()
		assert.Equal(t, 2, service.Arrived(fake.LoginRoute))
		assert.Zero(t, service.Arrived(fake.RefreshRoute), "an expired token cannot be refreshed")
	})
}

func TestSameRefusalOfManyCalls(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		client := fake.SignIn(t, service, nil)
		require.NoError(t, read(t.Context(), client))
		before := service.Arrived(fake.ListRoute)
		service.RevokeTokens()
		together := make(chan struct{})
		service.Fail(fake.ListRoute, lendingtest.Fault{Until: together, Times: 50})
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() { assert.NoError(t, read(t.Context(), client)) })
		}
		synctest.Wait()
		close(together)
		all.Wait()
		assert.Equal(t, 2, service.Arrived(fake.LoginRoute), "one sign-in more")
		assert.Equal(t, before+100, service.Arrived(fake.ListRoute), "each read once more")
	})
}

func TestSameRefusalOfManyMutations(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		client := fake.SignIn(t, service, nil)
		require.NoError(t, read(t.Context(), client))
		service.RevokeTokens()
		together := make(chan struct{})
		service.Fail(fake.CreateRoute, lendingtest.Fault{Until: together, Times: 50})
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				_, err := client.Applications.CreateCustomer(t.Context(), fake.Ada())
				assert.ErrorIs(t, err, lending.ErrUnauthorized)
				assert.Equal(t, lending.OutcomeRejected, lending.OutcomeOf(err))
			})
		}
		synctest.Wait()
		close(together)
		all.Wait()
		assert.Equal(t, 50, service.Arrived(fake.CreateRoute), "none is sent twice")
		assert.Equal(t, 1, service.Arrived(fake.LoginRoute), "nobody has asked for a token since")
		require.NoError(t, read(t.Context(), client))
		assert.Equal(t, 2, service.Arrived(fake.LoginRoute))
	})
}

// A refusal that arrives late is of a token that nobody uses any more.
func TestLateRefusal(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		store := &faultyStore{TokenStore: lending.NewMemoryTokenStore()}
		client := fake.SignIn(t, service, nil, lending.WithTokenStore(store))
		old, _, err := takeToken(t.Context(), client)
		require.NoError(t, err)
		for i := range 10 {
			client.Session().Invalidate(old)
			fresh, waited, err := takeToken(t.Context(), client)
			require.NoError(t, err)
			assert.Zero(t, waited, "the lease was given back, and refusals now and then are not held against anybody")
			store.down.Store(true) // the session's own memory must do
			client.Session().Invalidate(old)
			again, _, err := takeToken(t.Context(), client)
			require.NoError(t, err)
			store.down.Store(false)
			assert.Equal(t, fresh.Value.Reveal(), again.Value.Reveal())
			assert.Equal(t, i+2, service.Arrived(fake.LoginRoute))
			old = fresh
			bubble.Elapse(2 * time.Minute)
		}
	})
}

// A service that refuses every token must not make the client send a code for each call.
func TestEveryTokenIsRefused(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		client := fake.SignIn(t, service, nil)
		service.Fail(fake.ListRoute, lendingtest.Fault{Status: http.StatusUnauthorized, Times: -1})
		for range 600 {
			require.Error(t, read(t.Context(), client))
			bubble.Elapse(100 * time.Millisecond)
		}
		assert.LessOrEqual(t, service.Arrived(fake.LoginRoute), 12, "sign-ins in a minute")
		assert.GreaterOrEqual(t, service.Arrived(fake.LoginRoute), 3)
	})
}

type contextKey struct{}

// contexts notes what the transport sees of the callers.
type contexts struct {
	http.RoundTripper
	seen atomic.Int32
}

func (c *contexts) RoundTrip(r *http.Request) (*http.Response, error) {
	_, bounded := r.Context().Deadline()
	if strings.HasSuffix(r.URL.Path, "/login") && (r.Context().Value(contextKey{}) != nil || !bounded) {
		c.seen.Add(1)
	}
	return c.RoundTripper.RoundTrip(r)
}

func TestFirstCallerLeaves(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		transport := &contexts{RoundTripper: service.Transport()}
		client := fake.SignIn(t, service, nil, lending.WithHTTPClient(&http.Client{Transport: transport}))
		service.Fail(fake.LoginRoute, lendingtest.Fault{Delay: time.Second})
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
		assert.Zero(t, transport.seen.Load(), "a sign-in has nothing of its first caller's context")
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

// The outcome of a sign-in is not that of the call it was made for.
func TestLostSignIn(t *testing.T) {
	service := lendingtest.NewServer()
	defer service.Close()
	client := wire.NewClient(t, service.URL, lending.WithCredentials(fake.Credentials(service)))
	service.Fail(fake.LoginRoute, lendingtest.Fault{ResetAfter: true})
	_, err := client.Applications.Process(t.Context(), catalog.Application)
	require.Error(t, err)
	assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
	assert.NotErrorIs(t, err, lending.ErrMayHaveHappened)
	assert.NotErrorIs(t, err, lending.ErrOutcomeUnknown)
}

func TestEndpointDown(t *testing.T) {
	for name, fault := range map[string]lendingtest.Fault{
		"refuses": {ResetBefore: true, Times: -1},
		"hangs":   {Delay: time.Hour, Times: -1},
		"fails":   {Status: http.StatusServiceUnavailable, Times: -1},
	} {
		t.Run(name, func(t *testing.T) {
			fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
				client := fake.SignIn(t, service, nil)
				service.Fail(fake.LoginRoute, fault)
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
				_, _, err := takeToken(t.Context(), client)
				require.NoError(t, err)
			})
		})
	}
}

func TestPanicInTheCallback(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		panics := true
		client := fake.SignIn(t, service, func(c *lending.Credentials) {
			ask := c.TwoFactor
			c.TwoFactor = func(ctx context.Context, challenge lending.Challenge) (string, error) {
				if panics {
					panics = false
					panic("hush")
				}
				return ask(ctx, challenge)
			}
		})
		err := read(t.Context(), client)
		require.ErrorContains(t, err, "panic")
		assert.NotContains(t, err.Error(), "hush")
		require.NoError(t, read(t.Context(), client))
	})
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

// Others who ask at the same time, and are told to wait, must not hold up a person.
func TestSignInAmongOtherCallers(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		wrong := func(c *lending.Credentials) { c.Password = lending.NewSecret("wrong") }
		store := slowStore{lending.NewMemoryTokenStore()}
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

// slowStore takes its time to answer.
type slowStore struct{ lending.TokenStore }

func (s slowStore) Load(ctx context.Context) (lending.StoredToken, error) {
	bubble.Elapse(5 * time.Millisecond)
	return s.TokenStore.Load(ctx)
}

func TestSignInIsRateLimited(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		client := fake.SignIn(t, service, nil)
		service.Fail(fake.LoginRoute, lendingtest.Fault{Status: http.StatusTooManyRequests, RetryAfter: 90 * time.Second})
		for range 89 {
			require.Error(t, read(t.Context(), client))
			bubble.Elapse(time.Second)
		}
		assert.Equal(t, 1, service.Arrived(fake.LoginRoute))
		bubble.Elapse(2 * time.Second)
		require.NoError(t, read(t.Context(), client))
	})
}

func TestWrongCodesAreAskedAgain(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		var attempts []int
		rightFrom := 3
		client := fake.SignIn(t, service, func(c *lending.Credentials) {
			ask := c.TwoFactor
			c.TwoFactor = func(ctx context.Context, challenge lending.Challenge) (string, error) {
				attempts = append(attempts, challenge.Attempt)
				if challenge.Attempt < rightFrom {
					return "wrong", nil
				}
				return ask(ctx, challenge)
			}
		})
		require.NoError(t, read(t.Context(), client))
		assert.Equal(t, []int{1, 2, 3}, attempts)
		assert.Equal(t, 1, service.Arrived(fake.LoginRoute))

		service.RevokeTokens()
		attempts, rightFrom = nil, 10
		require.Error(t, read(t.Context(), client))
		require.Error(t, read(t.Context(), client))
		assert.Equal(t, []int{1, 2, 3}, attempts, "no further code is sent by itself")
		assert.Equal(t, 2, service.Arrived(fake.LoginRoute))
	})
}

// Once a code was sent, whatever ends the sign-in must not lead to a code a minute.
func TestCodesInAnHour(t *testing.T) {
	for name, ask := range map[string]func(context.Context, lending.Challenge) (string, error){
		"callers leave": func(ctx context.Context, _ lending.Challenge) (string, error) { <-ctx.Done(); return "", ctx.Err() },
		"fails":         func(context.Context, lending.Challenge) (string, error) { return "", errDown },
		"panics":        func(context.Context, lending.Challenge) (string, error) { panic("hush") },
		"returns none":  func(context.Context, lending.Challenge) (string, error) { return "", nil },
		"wrong codes":   func(context.Context, lending.Challenge) (string, error) { return "wrong", nil },
	} {
		t.Run(name, func(t *testing.T) {
			fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
				client := fake.SignIn(t, service, func(c *lending.Credentials) { c.TwoFactor = ask })
				for start := time.Now(); time.Since(start) < time.Hour; bubble.Elapse(time.Second) {
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
					require.Error(t, read(ctx, client))
					cancel()
				}
				assert.LessOrEqual(t, len(service.Sent()), 7)
			})
		})
	}
}

func TestCodeIsStillDueWhenTheCallersLeft(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		client := fake.SignIn(t, service, func(c *lending.Credentials) {
			c.TwoFactor = func(ctx context.Context, _ lending.Challenge) (string, error) { <-ctx.Done(); return "", ctx.Err() }
		})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		require.ErrorIs(t, read(ctx, client), context.DeadlineExceeded)
		synctest.Wait()
		var required *lending.TwoFactorRequiredError
		require.ErrorAs(t, read(t.Context(), client), &required)
		code := service.TwoFactorCode(lendingtest.Username)
		require.NoError(t, client.Session().CompleteTwoFactor(t.Context(), required.Challenge, code))
		require.NoError(t, read(t.Context(), client))
		assert.Len(t, service.Sent(), 1)
	})
}

func TestEmptyTokenIsAFailedSignIn(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		client := fake.SignIn(t, service, nil)
		service.Fail(fake.TwoFactorRoute, lendingtest.Fault{
			Status: http.StatusOK, Body: []byte(`{"requiresTwoFactor":false,"token":""}`), ContentType: "application/json", Times: -1,
		})
		_, _, err := takeToken(t.Context(), client)
		require.ErrorIs(t, err, lending.ErrSignInRequired)
		assert.Equal(t, 3, service.Arrived(fake.TwoFactorRoute))
	})
}

func withoutCallback(c *lending.Credentials) { c.TwoFactor = nil }

func TestTwoFactorInTwoProcesses(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		store := lending.NewMemoryTokenStore()
		first := fake.SignIn(t, service, withoutCallback, lending.WithTokenStore(store))
		second := fake.SignIn(t, service, withoutCallback, lending.WithTokenStore(store))
		var required *lending.TwoFactorRequiredError
		for range 120 {
			for _, client := range []*lending.Client{first, second} {
				err := read(t.Context(), client)
				require.ErrorAs(t, err, &required)
				require.ErrorIs(t, err, lending.ErrSignInRequired)
			}
			bubble.Elapse(time.Second)
		}
		assert.Len(t, service.Sent(), 1, "one code, however many ask")

		text, err := json.Marshal(required.Challenge)
		require.NoError(t, err)
		var challenge lending.Challenge
		require.NoError(t, json.Unmarshal(text, &challenge))
		err = second.Session().CompleteTwoFactor(t.Context(), challenge, "wrong")
		require.Error(t, err)
		assert.Equal(t, lending.OutcomeRejected, lending.OutcomeOf(err))
		require.NoError(t, second.Session().CompleteTwoFactor(t.Context(), challenge, service.TwoFactorCode(lendingtest.Username)))
		require.NoError(t, read(t.Context(), second))
		require.NoError(t, read(t.Context(), first), "the other process has it too")
		assert.Equal(t, 1, service.Arrived(fake.LoginRoute))

		challenge.Username = "somebody@example.com"
		var argument *lending.ArgumentError
		require.ErrorAs(t, first.Session().CompleteTwoFactor(t.Context(), challenge, "123456"), &argument)
	})
}

func challenged(t *testing.T, client *lending.Client) lending.Challenge {
	t.Helper()
	var required *lending.TwoFactorRequiredError
	require.ErrorAs(t, read(t.Context(), client), &required)
	return required.Challenge
}

func TestCodeThatBringsNoToken(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		client := fake.SignIn(t, service, withoutCallback)
		challenge := challenged(t, client)
		empty := lendingtest.Fault{Status: http.StatusOK, Body: []byte(`{"requiresTwoFactor":false,"token":""}`), ContentType: "application/json"}
		service.Fail(fake.TwoFactorRoute, empty)
		err := client.Session().CompleteTwoFactor(t.Context(), challenge, "123456")
		require.ErrorIs(t, err, lending.ErrSignInRequired)
		assert.Equal(t, lending.OutcomeRejected, lending.OutcomeOf(err), "another code may be tried")
		service.Fail(fake.LoginRoute, empty)
		assert.Equal(t, lending.OutcomeRejected, lending.OutcomeOf(client.Session().SignIn(t.Context())))
	})
}

func TestCompleteTwoFactorAndClose(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		store := lending.NewMemoryTokenStore()
		client := fake.SignIn(t, service, withoutCallback, lending.WithTokenStore(store))
		challenge := challenged(t, client)
		code := service.TwoFactorCode(lendingtest.Username)
		_, err := store.Acquire(t.Context(), "another", time.Hour)
		require.NoError(t, err)
		start := time.Now()
		require.ErrorIs(t, client.Session().CompleteTwoFactor(t.Context(), challenge, code), context.DeadlineExceeded)
		assert.LessOrEqual(t, time.Since(start), 2*time.Minute, "it has a time limit of its own")
		require.NoError(t, store.Release(t.Context(), "another"))
		service.Fail(fake.TwoFactorRoute, lendingtest.Fault{Delay: time.Hour, Times: -1})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, client.Session().CompleteTwoFactor(ctx, challenge, code), context.DeadlineExceeded)

		ended := make(chan error, 1)
		go func() { ended <- client.Session().CompleteTwoFactor(t.Context(), challenge, code) }()
		synctest.Wait()
		start = time.Now()
		require.NoError(t, client.Close())
		assert.Zero(t, time.Since(start), "Close ends it")
		require.Error(t, <-ended)
		arrived := service.Arrived(fake.TwoFactorRoute)
		require.ErrorContains(t, client.Session().CompleteTwoFactor(t.Context(), challenge, code), "closed")
		assert.Equal(t, arrived, service.Arrived(fake.TwoFactorRoute))
	})
}

func TestFailedRefreshIsRateLimited(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		client := fake.SignIn(t, service, nil)
		service.Fail(fake.RefreshRoute, lendingtest.Fault{Status: http.StatusServiceUnavailable, Times: -1})
		for range 6 * 61 {
			require.NoError(t, read(t.Context(), client))
			bubble.Elapse(10 * time.Second)
		}
		assert.InDelta(t, 20, service.Arrived(fake.RefreshRoute), 10, "in up to 20 minutes")
		assert.Equal(t, 2, service.Arrived(fake.LoginRoute), "past expiry comes a new sign-in")
	})
}

func TestRateLimitedRefreshWaits(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		client := fake.SignIn(t, service, nil)
		service.Fail(fake.RefreshRoute, lendingtest.Fault{Status: http.StatusTooManyRequests, RetryAfter: 9 * time.Minute})
		for range 6 * 58 {
			require.NoError(t, read(t.Context(), client))
			bubble.Elapse(10 * time.Second)
		}
		var at []time.Time
		for _, request := range service.Requests() {
			if request.Route == fake.RefreshRoute {
				at = append(at, request.Time)
			}
		}
		require.GreaterOrEqual(t, len(at), 1)
		if len(at) > 1 {
			assert.GreaterOrEqual(t, at[1].Sub(at[0]), 9*time.Minute)
		}
		assert.Equal(t, 1, service.Arrived(fake.LoginRoute))
	})
}

func TestExpiredTokenIsNotUsed(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		client := fake.SignIn(t, service, nil)
		service.Fail(fake.RefreshRoute, lendingtest.Fault{Status: http.StatusTooManyRequests, RetryAfter: 2 * time.Hour, Times: -1})
		for range 6 * 70 {
			require.NoError(t, read(t.Context(), client))
			bubble.Elapse(10 * time.Second)
		}
		assert.Equal(t, 1, service.Arrived(fake.RefreshRoute))
		assert.Equal(t, 2, service.Arrived(fake.LoginRoute))
		for _, request := range service.Requests() {
			assert.NotEqual(t, http.StatusUnauthorized, request.Status)
		}
	})
}

// scripted answers the sign-in routes with tokens of the test's own.
func scripted(service *lendingtest.Service, expires, refreshed string) {
	reply := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(body))
		}
	}
	service.Answer(fake.LoginRoute, reply(fmt.Sprintf(`{"requiresTwoFactor":false,"token":"first","expiresUTC":%q}`, expires)))
	service.Answer(fake.RefreshRoute, reply(fmt.Sprintf("%q", refreshed)))
}

func jwt(claims string) string {
	return "eyJhbGciOiJIUzI1NiJ9." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2lnbmF0dXJl"
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
		t.Run(test.name, func(t *testing.T) {
			fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
				scripted(service, "2000-01-01T01:06:00", test.refreshed)
				client := fake.SignIn(t, service, nil)
				first, _, err := takeToken(t.Context(), client)
				require.NoError(t, err)
				assert.Equal(t, start.Add(66*time.Minute), first.Expires)
				bubble.Elapse(55 * time.Minute) // 5/6
				_, _, _ = takeToken(t.Context(), client)
				synctest.Wait()
				second, _, err := takeToken(t.Context(), client)
				require.NoError(t, err)
				require.Equal(t, test.refreshed, second.Value.Reveal())
				want := test.life
				if want == time.Hour {
					want = 66 * time.Minute // the life seen at the sign-in
				}
				assert.Equal(t, want, time.Until(second.Expires))
			})
		})
	}
}

func TestTokenOfUnknownLife(t *testing.T) {
	for _, expires := range []string{"0001-01-01T00:00:00", "", "soon"} {
		t.Run(expires, func(t *testing.T) { useTokenOfUnknownLife(t, expires) })
	}
}

func useTokenOfUnknownLife(t *testing.T, expires string) {
	t.Helper()
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		scripted(service, expires, "second")
		client := fake.SignIn(t, service, nil)
		for range 100 {
			got, _, err := takeToken(t.Context(), client)
			require.NoError(t, err)
			require.Zero(t, got.Expires)
			bubble.Elapse(time.Hour)
		}
		assert.Zero(t, service.Arrived(fake.RefreshRoute))
		got, _, _ := takeToken(t.Context(), client)
		client.Session().Invalidate(got)
		_, _, err := takeToken(t.Context(), client)
		require.NoError(t, err)
		assert.Equal(t, 2, service.Arrived(fake.LoginRoute), "used until it is refused")
	})
}

func TestExpiryOfASignInByItsJWT(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		exp := time.Now().Add(time.Hour)
		service.Answer(fake.LoginRoute, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"requiresTwoFactor":false,"token":%q,"expiresUTC":null}`, jwt(fmt.Sprintf(`{"exp":%d}`, exp.Unix())))
		})
		got, _, err := takeToken(t.Context(), fake.SignIn(t, service, nil))
		require.NoError(t, err)
		assert.True(t, exp.Equal(got.Expires))
	})
}

// A token that is about to expire might do so on the way.
func TestTokenIsNotUsedToItsLastSecond(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		client := fake.SignIn(t, service, nil)
		service.Fail(fake.RefreshRoute, lendingtest.Fault{Status: http.StatusServiceUnavailable, Times: -1})
		first, _, err := takeToken(t.Context(), client)
		require.NoError(t, err)
		bubble.Elapse(time.Hour - 11*time.Second)
		same, _, err := takeToken(t.Context(), client)
		require.NoError(t, err)
		assert.Equal(t, first.Value.Reveal(), same.Value.Reveal())
		bubble.Elapse(2 * time.Second)
		next, _, err := takeToken(t.Context(), client)
		require.NoError(t, err)
		assert.NotEqual(t, first.Value.Reveal(), next.Value.Reveal())
	})
}

func TestClockSkew(t *testing.T) {
	for _, skew := range []time.Duration{-3 * time.Hour, 3 * time.Hour, time.Second} {
		t.Run(skew.String(), func(t *testing.T) {
			fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
				service.Advance(skew)
				client := fake.SignIn(t, service, nil)
				got, _, err := takeToken(t.Context(), client)
				require.NoError(t, err)
				assert.InDelta(t, time.Hour, time.Until(got.Expires), float64(2*time.Second))
				for range 300 {
					require.NoError(t, read(t.Context(), client))
					bubble.Elapse(time.Minute)
				}
				assert.Equal(t, 1, service.Arrived(fake.LoginRoute))
			})
		})
	}
}

func TestKeepalive(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		client := fake.SignIn(t, service, nil)
		ended := make(chan error, 2)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { ended <- client.Session().Keepalive(ctx) }()
		bubble.Elapse(time.Hour)
		assert.Zero(t, service.Arrived(fake.LoginRoute), "it never signs in")
		require.NoError(t, read(t.Context(), client))
		bubble.Elapse(48 * time.Hour)
		require.NoError(t, read(t.Context(), client))
		assert.Equal(t, 1, service.Arrived(fake.LoginRoute))
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)

		go func() { ended <- client.Session().Keepalive(t.Context()) }()
		synctest.Wait()
		require.NoError(t, client.Close())
		require.Error(t, <-ended)
		before := len(service.Requests())
		bubble.Elapse(48 * time.Hour)
		assert.Len(t, service.Requests(), before, "nothing runs after Close")
	})
}

func TestCloseEndsASignIn(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		client := fake.SignIn(t, service, func(c *lending.Credentials) {
			c.TwoFactor = func(ctx context.Context, _ lending.Challenge) (string, error) {
				<-ctx.Done()
				return "", ctx.Err()
			}
		})
		failed := make(chan error, 1)
		go func() {
			_, _, err := takeToken(t.Context(), client)
			failed <- err
		}()
		synctest.Wait()
		require.NoError(t, client.Close())
		require.Error(t, <-failed)
		_, _, err := takeToken(t.Context(), client)
		require.ErrorContains(t, err, "closed")
		assert.Equal(t, 1, service.Arrived(fake.LoginRoute))
	})
}

func TestCloseEndsARefresh(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		client := fake.SignIn(t, service, nil)
		require.NoError(t, read(t.Context(), client))
		service.Fail(fake.RefreshRoute, lendingtest.Fault{Delay: time.Hour})
		bubble.Elapse(51 * time.Minute)
		require.NoError(t, read(t.Context(), client))
		synctest.Wait()
		require.NoError(t, client.Close())
		bubble.Elapse(3 * time.Minute)
		require.NoError(t, read(t.Context(), client), "the token is still good")
		bubble.Elapse(time.Hour)
		require.Error(t, read(t.Context(), client))
		assert.Equal(t, 1, service.Arrived(fake.RefreshRoute))
		assert.Equal(t, 1, service.Arrived(fake.LoginRoute))
	})
}

// Nobody sees a password, a code or a token in what a session prints.
func TestSessionPrintsNoSecrets(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		var log strings.Builder
		client := fake.SignIn(t, service, nil, lending.WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))))
		service.Fail(fake.RefreshRoute, lendingtest.Fault{Status: http.StatusServiceUnavailable})
		got, _, err := takeToken(t.Context(), client)
		require.NoError(t, err)
		bubble.Elapse(51 * time.Minute)
		require.NoError(t, read(t.Context(), client))
		synctest.Wait()
		assert.Contains(t, log.String(), "lending session: refreshing the token")
		for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
			fmt.Fprintf(&log, verb+verb, client.Session(), got)
		}
		for _, secret := range []string{lendingtest.Password, got.Value.Reveal(), service.TwoFactorCode(lendingtest.Username)} {
			assert.NotContains(t, log.String(), secret)
		}
	})
}
