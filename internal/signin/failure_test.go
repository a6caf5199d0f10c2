package signin_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/lendingtest"
)

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

// Of a sign-in without a status the others learn the kind of the cause, and where to look.
func TestReplicasLearnTheKindOfACause(t *testing.T) {
	noToken := lendingtest.Fault{
		Status: http.StatusOK, Body: []byte(`{"requiresTwoFactor":false,"token":""}`), ContentType: "application/json",
	}
	for _, test := range []struct {
		name   string
		fault  lendingtest.Fault
		change func(*lending.Credentials)
		want   string
	}{
		{"no token", noToken, nil, "the service signed in without a usable token"},
		{"no answer", lendingtest.Fault{ResetBefore: true, Times: -1}, nil, "the service has not answered"},
		{"no code", lendingtest.Fault{}, func(c *lending.Credentials) {
			c.TwoFactor = func(context.Context, lending.Challenge) (string, error) { return "", errors.New("c4n4ry") }
		}, "the TwoFactor function failed"},
	} {
		runInBubble(t, test.name, func(t *testing.T, service *lendingtest.Service) {
			store := lending.NewMemoryTokenStore()
			if test.change == nil {
				service.Fail(fake.LoginRoute, test.fault)
			}
			first := fake.SignIn(t, service, test.change, lending.WithTokenStore(store))
			for range 4 { // the function's first failures cost no pause
				require.Error(t, read(t.Context(), first))
			}
			err := read(t.Context(), fake.SignIn(t, service, test.change, lending.WithTokenStore(store)))
			assert.ErrorContains(t, err, "failed in another process: "+test.want+"; see its log: not tried again before")
			assert.NotContains(t, fake.Must(store.Load(t.Context())).Data.Reveal(), "c4n4ry")
		})
	}
}

// The pause after a 429 is what the service asks for, not that after a wrong password.
func TestRateLimitIsNoRefusal(t *testing.T) {
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
		service.Answer(fake.LoginRoute, wire.Answer(http.StatusOK, `{"requiresTwoFactor":false,"token":""}`))
		require.ErrorIs(t, read(t.Context(), client), lending.ErrSignInRequired)
		assert.Equal(t, "rejected", stateOf(t, client).Pause)
	})
}
