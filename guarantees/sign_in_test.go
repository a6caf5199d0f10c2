package guarantees_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
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
