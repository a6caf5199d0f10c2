package guarantees_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/lendingtest"
)

func TestSignInThatFails(t *testing.T) {
	noPhone := errors.New("no phone at hand")
	for _, test := range []struct {
		name   string
		change func(*lending.Credentials)
		want   string
		is     error
	}{
		{
			"wrong password", func(c *lending.Credentials) { c.Password = lending.NewSecret("hush") },
			"POST /api/Authenication/login", nil,
		},
		{"wrong code", func(c *lending.Credentials) {
			c.TwoFactor = func(context.Context, lending.Challenge) (string, error) { return "hush", nil }
		}, "POST /api/Authenication/validate-two-factor", nil},
		{"no code", func(c *lending.Credentials) {
			c.TwoFactor = func(context.Context, lending.Challenge) (string, error) { return "", nil }
		}, "code must not be empty", nil},
		{
			"no function", func(c *lending.Credentials) { c.TwoFactor = nil }, "two-factor code",
			lending.ErrSignInRequired,
		},
		{"function fails", func(c *lending.Credentials) {
			c.TwoFactor = func(context.Context, lending.Challenge) (string, error) { return "", noPhone }
		}, "", noPhone},
		{"function panics", func(c *lending.Credentials) {
			c.TwoFactor = func(context.Context, lending.Challenge) (string, error) { panic("hush") }
		}, "", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			service := lendingtest.NewServer()
			t.Cleanup(service.Close)
			credentials := fake.Credentials(service)
			test.change(&credentials)
			client := wire.NewClient(t, service.URL, lending.WithCredentials(credentials))
			_, err := client.Applications.CreateCustomer(t.Context(), fake.Ada())
			require.ErrorContains(t, err, test.want)
			if test.is != nil {
				require.ErrorIs(t, err, test.is)
			}
			assert.NotContains(t, err.Error(), "hush")
			assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
			assert.Zero(t, service.Arrived(fake.CreateRoute))
		})
	}
}

// A page of a gateway, for example during a deployment, says nothing of the password: the pause stays below
// a minute, and no person is told. Any other refusal of a sign-in counts, because more tries could lock the account.
func TestGatewayRefusesNoPassword(t *testing.T) {
	const page, plain = "text/html", "text/plain"
	for _, test := range []struct {
		name, media, body string
		status            int
		refuses           bool
	}{
		{"page", page, "<html>", 403, false},
		{"page as text", plain, "<!DOCTYPE html>", 400, false},
		{"unknown path", page, "<html>", 404, false},
		{"page with 401", page, "<html>", 401, true},
		{"text", plain, "bad credentials", 400, true},
		{"empty", "", "", 403, true},
		{"problem", "application/problem+json", `{"title":"Bad Request","errorCode":"InvalidCredentials"}`, 400, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			address := wire.Listen(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", test.media)
				w.WriteHeader(test.status)
				_, _ = w.Write([]byte(test.body))
			})
			credentials := lending.Credentials{Username: "ada", Password: lending.NewSecret("hush")}
			store := lending.NewMemoryTokenStore()
			client := wire.NewClient(t, address, lending.WithCredentials(credentials), lending.WithTokenStore(store))
			another := wire.NewClient(t, address, lending.WithCredentials(credentials), lending.WithTokenStore(store))
			for _, c := range []*lending.Client{client, another} { // as of two processes
				_, err := c.Applications.Status(t.Context(), catalog.Application)
				next := lending.NextOf(err)
				assert.True(t, next.Retry, "%v", err)
				assert.Equal(t, test.refuses, next.Person, "%v", err)
				assert.Equal(t, test.refuses, next.After >= 30*time.Second, "%v", next)
			}

			_, err := client.Auth.Login(t.Context(), lending.LoginRequest{Username: "ada", Password: lending.NewSecret("hush")})
			assert.Equal(t, lending.OutcomeRejected, lending.OutcomeOf(err))
			assert.Equal(t, lending.Next{Retry: !test.refuses, Person: test.refuses}, lending.Next{
				Retry: lending.NextOf(err).Retry, Person: lending.NextOf(err).Person,
			})
		})
	}
}

func TestTrustedDeviceNeedsNoCode(t *testing.T) {
	service := lendingtest.NewServer()
	t.Cleanup(service.Close)
	client := wire.NewClient(t, service.URL, lending.WithCredentials(lending.Credentials{
		Username: lendingtest.Username, Password: lending.NewSecret(lendingtest.Password),
		TrustedDeviceToken: lending.NewSecret(lendingtest.TrustedDeviceToken),
	}))
	_, err := client.Applications.CreateCustomer(t.Context(), fake.Ada())
	require.NoError(t, err)
	assert.Zero(t, service.Arrived(fake.TwoFactorRoute))
}
