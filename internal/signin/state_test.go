package signin_test

import (
	"context"
	"errors"
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
	"github.com/lendingapi/lending-go/lendingtest"
)

func stateOf(t *testing.T, client *lending.Client) lending.SessionState {
	t.Helper()
	state, err := client.Session().State(t.Context())
	require.NoError(t, err)
	return state
}

// Each process that shares the store tells the kind of a failed sign-in, and whether a person is
// needed: an outage of a second must page nobody.
func TestStateTellsWhyASessionIsNotSignedIn(t *testing.T) {
	status := func(code int) lendingtest.Fault { return lendingtest.Fault{Status: code, Body: []byte{}} }
	credentials := func(ask func(context.Context, lending.Challenge) (string, error)) func(*lending.Credentials) {
		return func(c *lending.Credentials) { c.TwoFactor = ask }
	}
	const outage, person = "; no sign-in before 2000-01-01T", "; a person has to sign in"
	const correct = person + " or to correct the credentials"
	for _, test := range []struct {
		name        string
		fault       lendingtest.Fault
		credentials func(*lending.Credentials)
		free        int // failures that cost no pause
		want        string
		ready       string
	}{
		{"500", status(http.StatusInternalServerError), nil, 0, "outage", outage},
		{"503", status(http.StatusServiceUnavailable), nil, 0, "outage", outage},
		{"404 of a proxy", status(http.StatusNotFound), nil, 0, "rejected", correct},
		{"429", lendingtest.Fault{Status: 429, RetryAfter: time.Minute}, nil, 0, "outage", outage},
		{"service closed", lendingtest.Fault{ResetBefore: true}, nil, 0, "outage", outage},
		{"wrong password", lendingtest.Fault{}, func(c *lending.Credentials) {
			c.Password = lending.NewSecret("wrong")
		}, 0, "rejected", correct},
		{"no code wanted yet", lendingtest.Fault{}, credentials(nil), 0, "code_sent", person},
		{
			"nobody can be asked",
			lendingtest.Fault{},
			credentials(func(context.Context, lending.Challenge) (string, error) { return "", errors.New("no telephone") }),
			3, "code_sent", person,
		},
		{
			"panic",
			lendingtest.Fault{},
			credentials(func(context.Context, lending.Challenge) (string, error) { panic("none of a person's") }), 3,
			"code_sent", "",
		},
	} {
		runInBubble(t, test.name, func(t *testing.T, service *lendingtest.Service) {
			service.Fail(fake.LoginRoute, test.fault)
			one, other := twoReplicas(t, service, test.credentials)
			require.Equal(t, lending.SessionState{}, stateOf(t, one))
			require.NoError(t, one.Session().Ready(t.Context()), "nothing prevents a sign-in")
			tried := read(t.Context(), one)
			for range test.free {
				tried = read(t.Context(), one)
			}
			arrived := service.Arrived(fake.LoginRoute)
			bubble.Elapse(time.Millisecond)
			for _, client := range []*lending.Client{one, other} {
				state := stateOf(t, client)
				require.False(t, state.SignedIn)
				require.Equal(t, test.want, state.Pause)
				require.True(t, state.Paused.After(time.Now()))
				require.NotEmpty(t, state.Cause)
				err := client.Session().Ready(t.Context())
				require.ErrorContains(t, err, "lending: session: not ready: ")
				require.ErrorContains(t, err, test.ready)
				require.Equal(t, strings.HasPrefix(test.ready, person), state.Person)
			}
			learned := read(t.Context(), other)
			require.ErrorContains(t, learned, "not tried again before")
			for _, err := range []error{tried, learned} {
				assert.Equal(t, test.want == "code_sent" && test.ready != "",
					errors.Is(err, lending.ErrSignInRequired), err)
				assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err), err)
			}
			require.Equal(t, arrived, service.Arrived(fake.LoginRoute), "nobody calls the service")
		})
	}
}

func TestStateTellsTheTokensEnd(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		one, other := twoReplicas(t, service, nil)
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
		one, other := twoReplicas(t, service, nil)
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
	withStore(t, func(t *testing.T, service *lendingtest.Service, store *hookedStore, client *lending.Client) {
		store.before(func(context.Context, string) error { return errDown })
		_, err := client.Session().State(t.Context())
		require.ErrorContains(t, err, "the token store")
		require.ErrorContains(t, client.Session().Ready(t.Context()), "; check the token store")
		require.Error(t, read(t.Context(), client))
		state, _ := client.Session().State(t.Context())
		require.Equal(t, "token_store", state.Pause)
		store.before(nil)
		require.NoError(t, client.Session().SignIn(t.Context()))
		store.before(func(context.Context, string) error { return errDown })
		state, err = client.Session().State(t.Context())
		require.Error(t, err)
		require.True(t, state.SignedIn)
		require.NoError(t, client.Session().Ready(t.Context()), "it has a token")

		client.Close()
		require.ErrorContains(t, client.Session().Ready(t.Context()), "the client is closed")
	})
}

// Of a rejected sign-in and a failure of the store, the state tells the one with the longer pause.
func TestStateTellsTheLongerPause(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		store := newHookedStore()
		client := fake.SignIn(t, service, func(c *lending.Credentials) { c.Password = lending.NewSecret("wrong") },
			lending.WithTokenStore(store))
		require.Error(t, read(t.Context(), client))
		store.fail("", errDown)
		require.ErrorIs(t, read(t.Context(), client), errDown)
		state, err := client.Session().State(t.Context())
		require.ErrorIs(t, err, errDown)
		assert.Equal(t, "rejected", state.Pause)
		assert.Equal(t, time.Minute, time.Until(state.Paused))
		bubble.Elapse(time.Minute)
		require.ErrorIs(t, read(t.Context(), client), errDown)
		state, err = client.Session().State(t.Context())
		require.ErrorIs(t, err, errDown)
		assert.Equal(t, "token_store", state.Pause)
	})
}

// The end of its context ends the look of a State into the store. After the end, a State does not look.
func TestStateEndsWithItsContext(t *testing.T) {
	withStore(t, func(t *testing.T, service *lendingtest.Service, store *hookedStore, client *lending.Client) {
		ended := make(chan error, 2)
		store.at("load", func(ctx context.Context) error { <-ctx.Done(); ended <- ctx.Err(); return ctx.Err() })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := client.Session().State(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = client.Session().State(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		synctest.Wait()
		assert.Len(t, ended, 1)
	})
}
