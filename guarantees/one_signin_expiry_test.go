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

// slowAnswers delivers the answers of sign-ins late.
type slowAnswers struct {
	http.RoundTripper
	late time.Duration
}

func (s slowAnswers) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := s.RoundTripper.RoundTrip(r)
	if strings.Contains(r.URL.Path, "/Authenication/") {
		bubble.Elapse(s.late)
	}
	return resp, err
}

// How long an answer was on its way is no difference of clocks.
func TestSlowAnswerIsNoSkew(t *testing.T) {
	for _, skew := range []time.Duration{0, -3 * time.Hour, 3 * time.Hour} {
		fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
			service.Advance(skew)
			client := fake.SignIn(t, service, nil, lending.WithHTTPClient(&http.Client{Transport: slowAnswers{service.Transport(), 20 * time.Second}}))
			for range 300 {
				require.NoError(t, read(t.Context(), client))
				bubble.Elapse(time.Second)
			}
			for _, request := range service.Requests() {
				assert.NotEqual(t, http.StatusUnauthorized, request.Status)
			}
		}, lendingtest.WithTokenLifetime(time.Minute))
	}
}

// A token that comes with its last moments is not used: the service's Date tells its life
// only to the second.
func TestTokenThatNearlyEndedOnTheWay(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		delay := 57 * time.Second
		client := fake.SignIn(t, service, nil, lending.WithHTTPClient(&http.Client{Transport: wire.RoundTripper(func(r *http.Request) (*http.Response, error) {
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

// lateKeeper keeps the first token only after some time.
type lateKeeper struct {
	lending.TokenStore
	first time.Duration
}

func (s *lateKeeper) Save(ctx context.Context, token lending.StoredToken) error {
	wait := s.first
	s.first = 0
	bubble.Elapse(wait)
	return s.TokenStore.Save(ctx, token)
}

func TestTokenThatEndsBeforeItIsShared(t *testing.T) {
	for name, end := range map[string]func(*lendingtest.Service){
		"refused": (*lendingtest.Service).RevokeTokens, "expired": func(*lendingtest.Service) { bubble.Elapse(2 * time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
				client := fake.SignIn(t, service, nil, lending.WithTokenStore(&lateKeeper{lending.NewMemoryTokenStore(), 4 * time.Second}))
				given := make(chan lending.Token, 1)
				go func() {
					token, err := client.Session().Token(t.Context())
					assert.NoError(t, err)
					assert.True(t, token.Expires.After(time.Now()), "given out after its end")
					given <- token
				}()
				synctest.Wait() // it has a token, which is not kept yet
				end(service)
				require.NoError(t, read(t.Context(), client), "not sent again once it was refused")
				now, _, err := takeToken(t.Context(), client)
				require.NoError(t, err)
				assert.Equal(t, now.Value.Reveal(), (<-given).Value.Reveal())
				assert.Equal(t, 2, service.Arrived(fake.LoginRoute))
			}, lendingtest.WithTokenLifetime(2*time.Second))
		})
	}
}

// A service whose tokens never live until they are given out is not asked again and again.
func TestTokensThatAlwaysEndBeforeTheyAreShared(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		client := fake.SignIn(t, service, nil, lending.WithHTTPClient(&http.Client{Transport: slowAnswers{service.Transport(), 2 * time.Second}}))
		for start := time.Now(); time.Since(start) < time.Minute; bubble.Elapse(10 * time.Millisecond) {
			require.ErrorContains(t, read(t.Context(), client), "its token is of no use any more")
		}
		assert.LessOrEqual(t, service.Arrived(fake.LoginRoute), 10)
	}, lendingtest.WithTokenLifetime(time.Second))
}

func TestKeepaliveSeesASignIn(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		client := fake.SignIn(t, service, nil)
		go func() { _ = client.Session().Keepalive(t.Context()) }()
		synctest.Wait()
		require.NoError(t, read(t.Context(), client))
		bubble.Elapse(10 * time.Minute)
		require.NoError(t, read(t.Context(), client))
		assert.Equal(t, 1, service.Arrived(fake.LoginRoute))
	}, lendingtest.WithTokenLifetime(30*time.Second))
}
