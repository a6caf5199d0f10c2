package signin_test

import (
	"context"
	"encoding/json"
	"net/http"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/signin"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/lendingtest"
)

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
	t.Parallel()
	for _, test := range []struct {
		name string
		ask  func(context.Context, lending.Challenge) (string, error)
	}{
		{"callers leave", func(ctx context.Context, _ lending.Challenge) (string, error) {
			<-ctx.Done()
			return "",
				ctx.Err()
		}},
		{"fails", func(context.Context, lending.Challenge) (string, error) { return "", errDown }},
		{"panics", func(context.Context, lending.Challenge) (string, error) { panic("hush") }},
		{"exits", func(context.Context, lending.Challenge) (string, error) { runtime.Goexit(); return "", nil }},
		{"returns none", func(context.Context, lending.Challenge) (string, error) { return "", nil }},
		{"wrong codes", func(context.Context, lending.Challenge) (string, error) { return "wrong", nil }},
	} {
		runInBubble(t, test.name, func(t *testing.T, service *lendingtest.Service) {
			client := fake.SignIn(t, service, func(c *lending.Credentials) { c.TwoFactor = test.ask })
			for start := time.Now(); time.Since(start) < time.Hour; bubble.Elapse(10 * time.Second) {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				require.Error(t, read(ctx, client))
				cancel()
			}
			assert.LessOrEqual(t, len(service.Sent()), 7)
		})
	}
}

func TestErrorTellsThatTheCodeWasWrong(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		client := fake.SignIn(t, service, func(c *lending.Credentials) {
			c.TwoFactor = func(_ context.Context, challenge lending.Challenge) (string, error) {
				if challenge.Attempt > 1 {
					return "", errDown
				}
				return "wrong", nil
			}
		})
		require.ErrorContains(t, read(t.Context(), client), "InvalidTwoFactorCode")
	})
}

func TestCodeIsStillDueWhenTheCallersLeft(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		client := fake.SignIn(t, service, func(c *lending.Credentials) {
			c.TwoFactor = func(ctx context.Context, _ lending.Challenge) (string, error) {
				<-ctx.Done()
				return "",
					ctx.Err()
			}
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

func TestTwoFactorInTwoProcesses(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		first, second := twoReplicas(t, service, withoutCallback)
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
		require.NoError(t, second.Session().CompleteTwoFactor(t.Context(), challenge,
			service.TwoFactorCode(lendingtest.Username)))
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

// The time that a person takes for the code is no difference of the clocks.
func TestWaitForTheCodeMovesNoExpiry(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		service.Answer(fake.TwoFactorRoute, func(w http.ResponseWriter, r *http.Request) {
			behind := time.Now().UTC().Add(-time.Hour)
			w.Header().Set("Date", behind.Format(http.TimeFormat))
			expires := behind.Add(30 * time.Minute).Format(time.RFC3339)
			wire.Answer(http.StatusOK, `{"requiresTwoFactor":false,"token":"t","expiresUTC":"`+expires+`"}`)(w, r)
		})
		client := fake.SignIn(t, service, func(c *lending.Credentials) {
			c.TwoFactor = func(context.Context, lending.Challenge) (string, error) {
				bubble.Elapse(10 * time.Minute)
				return "012345", nil
			}
		})
		got := tokenIn(t, client)
		assert.WithinDuration(t, time.Now().Add(30*time.Minute), got.Expires, 2*time.Second)
	})
}

func TestCodeThatBringsNoToken(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		client := fake.SignIn(t, service, withoutCallback)
		challenge := challenged(t, client)
		empty := lendingtest.Fault{
			Status: http.StatusOK, Body: []byte(`{"requiresTwoFactor":false,"token":""}`),
			ContentType: "application/json",
		}
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
		service.Fail(fake.TwoFactorRoute, lendingtest.Fault{DelayBefore: time.Hour, Times: -1})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, client.Session().CompleteTwoFactor(ctx, challenge, code), context.DeadlineExceeded)

		ended := make(chan error, 1)
		go func() { ended <- client.Session().CompleteTwoFactor(t.Context(), challenge, code) }()
		synctest.Wait()
		start = time.Now()
		client.Close()
		assert.Zero(t, time.Since(start), "Close ends it")
		require.Error(t, <-ended)
		arrived := service.Arrived(fake.TwoFactorRoute)
		require.ErrorContains(t, client.Session().CompleteTwoFactor(t.Context(), challenge, code), "closed")
		assert.Equal(t, arrived, service.Arrived(fake.TwoFactorRoute))
	})
}

// TestTwoFactorMayNotUseItsClient has the function call the same client, which would wait for itself, or close it.
func TestTwoFactorMayNotUseItsClient(t *testing.T) {
	for _, test := range []struct {
		name string
		use  func(context.Context, *lending.Client) error
		want error
	}{
		{"reads", read, signin.ErrReentered},
		{"signs in", func(ctx context.Context, client *lending.Client) error {
			return client.Session().SignIn(ctx)
		}, signin.ErrReentered},
		{"closes", func(_ context.Context, client *lending.Client) error { client.Close(); return nil }, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
				var client *lending.Client
				client = fake.SignIn(t, service, func(c *lending.Credentials) {
					c.TwoFactor = func(ctx context.Context, _ lending.Challenge) (string, error) {
						start := time.Now()
						err := test.use(ctx, client)
						require.ErrorIs(t, err, test.want)
						assert.LessOrEqual(t, time.Since(start), 5*time.Second)
						return "", errDown
					}
				})
				require.Error(t, read(t.Context(), client))
				client.Close()
			})
		})
	}
}
