package signin_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/lendingtest"
)

func stateOf(t *testing.T, client *lending.Client) lending.SessionState {
	t.Helper()
	state, err := client.Session().State(t.Context())
	require.NoError(t, err)
	return state
}

// The state says the kind of a failed sign-in in each process that shares the store, without a
// call of the service.
func TestStateTellsWhyASessionIsNotSignedIn(t *testing.T) {
	for _, test := range []struct {
		name        string
		fault       lendingtest.Fault
		credentials func(*lending.Credentials)
		want        lending.PauseKind
		person      bool
		ready       string
	}{
		{
			"outage",
			lendingtest.Fault{Status: http.StatusServiceUnavailable},
			nil,
			lending.PauseOutage, false, "; no sign-in before 2000-01-01T",
		},
		{
			"wrong password",
			lendingtest.Fault{},
			func(c *lending.Credentials) { c.Password = lending.NewSecret("wrong") },
			lending.PauseRejected, true, "; a person has to sign in or to correct the credentials",
		},
		{
			"two-factor",
			lendingtest.Fault{},
			func(c *lending.Credentials) { c.TwoFactor = nil },
			lending.PauseCodeSent, true, "; a person has to sign in",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
				store := lending.NewMemoryTokenStore()
				if test.fault.Status != 0 {
					service.Fail(fake.LoginRoute, test.fault)
				}
				one := fake.SignIn(t, service, test.credentials, lending.WithTokenStore(store))
				other := fake.SignIn(t, service, test.credentials, lending.WithTokenStore(store))
				require.Equal(t, lending.SessionState{}, stateOf(t, one))
				require.NoError(t, one.Session().Ready(t.Context()), "nothing prevents a sign-in")
				require.Error(t, read(t.Context(), one))
				arrived := service.Arrived(fake.LoginRoute)
				for _, client := range []*lending.Client{one, other} {
					state := stateOf(t, client)
					require.False(t, state.SignedIn)
					require.Equal(t, test.want, state.Pause)
					require.Equal(t, test.person, state.Person)
					require.True(t, state.Paused.After(time.Now()))
					require.NotEmpty(t, state.Cause)
					err := client.Session().Ready(t.Context())
					require.ErrorContains(t, err, "lending: session: not ready: ")
					require.ErrorContains(t, err, test.ready)
				}
				require.Equal(t, arrived, service.Arrived(fake.LoginRoute), "the service was called")
			})
		})
	}
}

func TestStateTellsTheTokensEnd(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		store := lending.NewMemoryTokenStore()
		one := fake.SignIn(t, service, nil, lending.WithTokenStore(store))
		other := fake.SignIn(t, service, nil, lending.WithTokenStore(store))
		token, _, err := takeToken(t.Context(), one)
		require.NoError(t, err)
		for _, client := range []*lending.Client{one, other} {
			require.Equal(t, lending.SessionState{SignedIn: true, Until: token.Expires}, stateOf(t, client))
			require.NoError(t, client.Session().Ready(t.Context()))
		}
		require.Equal(t, 1, service.Arrived(fake.LoginRoute))
		bubble.Elapse(time.Until(token.Expires))
		require.Equal(t, lending.SessionState{}, stateOf(t, one), "the token has expired")
	})
}

func TestStateTellsWhoHasTheLease(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		store := lending.NewMemoryTokenStore()
		one := fake.SignIn(t, service, nil, lending.WithTokenStore(store))
		other := fake.SignIn(t, service, nil, lending.WithTokenStore(store))
		service.Fail(fake.LoginRoute, lendingtest.Fault{DelayBefore: 10 * time.Second})
		ended := make(chan struct{}, 2)
		for _, client := range []*lending.Client{one, other} {
			go func() {
				_, _, _ = takeToken(t.Context(), client)
				ended <- struct{}{}
			}()
			bubble.Elapse(time.Second)
		}
		require.Equal(t, lending.SessionState{Lease: "this process"}, stateOf(t, one))
		require.Equal(t, lending.SessionState{Lease: "another process"}, stateOf(t, other))
		<-ended
		<-ended
		require.Empty(t, stateOf(t, one).Lease)
		require.Empty(t, stateOf(t, other).Lease)
	})
}

func TestStateWithoutTheStore(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		store := newHookedStore()
		client := fake.SignIn(t, service, nil, lending.WithTokenStore(store))
		store.before(func(context.Context, string) error { return errDown })
		_, err := client.Session().State(t.Context())
		require.ErrorContains(t, err, "the token store")
		require.ErrorContains(t, client.Session().Ready(t.Context()), "; check the token store")
		require.Error(t, read(t.Context(), client))
		state, _ := client.Session().State(t.Context())
		require.Equal(t, lending.PauseTokenStore, state.Pause)
		store.before(nil)
		require.NoError(t, client.Session().SignIn(t.Context()))
		store.before(func(context.Context, string) error { return errDown })
		state, err = client.Session().State(t.Context())
		require.Error(t, err)
		require.True(t, state.SignedIn)
		require.NoError(t, client.Session().Ready(t.Context()), "it has a token")

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = client.Session().State(ctx)
		require.ErrorIs(t, err, context.Canceled)
		client.Close()
		require.ErrorContains(t, client.Session().Ready(t.Context()), "the client is closed")
	})
}
