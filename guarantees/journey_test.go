package guarantees_test

import (
	"context"
	"errors"
	"net"
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

func TestJourneyToAnOffer(t *testing.T) {
	service, client := fake.Target(t)
	ctx := t.Context()
	customer, err := client.Applications.CreateCustomer(ctx, fake.Newcomer())
	require.NoError(t, err)
	id, err := client.Applications.Create(ctx, lending.ApplicationRequest{
		CustomerID: customer.ID, BusinessName: "Lovelace Analytics", BusinessZip: "94105",
		ExtraInformation: map[string]string{"years": "7"},
	}, nil)
	require.NoError(t, err)
	accepted, err := client.Applications.AddOrUpdateBankingData(ctx, id,
		fake.AccountsWith(fake.Booked("2026-08-03", "Invoice", "12500.00")),
		&lending.BankingDataOptions{BankName: "First & Last"})
	require.NoError(t, err)
	assert.True(t, accepted)
	offerID, err := client.Applications.Process(ctx, id)
	require.NoError(t, err)
	status, err := client.Applications.Status(ctx, id)
	require.NoError(t, err)
	if service != nil {
		assert.Equal(t, lendingtest.StatusOfferReady, status)
	}
	offer, err := client.Applications.Offer(ctx, id, nil)
	require.NoError(t, err)
	var terms struct{ ID, ApplicationID string }
	require.NoError(t, offer.Decode(&terms))
	assert.Equal(t, offerID.String(), terms.ID)
	assert.Equal(t, id.String(), terms.ApplicationID)

	list, err := client.Applications.ListByCustomer(ctx, customer.ID)
	require.NoError(t, err)
	require.Len(t, list, 1)
	renamed, err := client.Applications.UpdateNameAndZipCode(ctx, id, "Ada & Söhne", "10115")
	require.NoError(t, err)
	assert.True(t, renamed)
	application, err := client.Applications.Get(ctx, id)
	require.NoError(t, err)
	var names struct{ BusinessName, BusinessZip string }
	require.NoError(t, application.Decode(&names))
	assert.Equal(t, "Ada & Söhne", names.BusinessName)
	assert.Equal(t, "10115", names.BusinessZip)

	if service == nil {
		return
	}
	assert.Equal(t, 1, service.Executed(fake.LoginRoute), "one sign-in for all calls")
	assert.Equal(t, 1, service.Executed(fake.TwoFactorRoute))
	assert.Equal(t, 1, service.Executed(fake.ProcessRoute))
	assert.Zero(t, service.Outside())
}

func TestProcessWithoutTransactions(t *testing.T) {
	_, client := fake.Target(t)
	customer, err := client.Applications.CreateCustomer(t.Context(), fake.Newcomer())
	require.NoError(t, err)
	id, err := client.Applications.Create(t.Context(), lending.ApplicationRequest{
		CustomerID:   customer.ID,
		BusinessName: "B", BusinessZip: "94105",
	}, nil)
	require.NoError(t, err)
	_, err = client.Applications.AddOrUpdateBankingData(t.Context(), id, fake.AccountsWith(), nil)
	require.NoError(t, err)
	_, err = client.Applications.Process(t.Context(), id)
	var failed *lending.Error
	require.ErrorAs(t, err, &failed)
	assert.Equal(t, 400, failed.StatusCode)
	assert.Equal(t, lending.OutcomeRejected, failed.Outcome)
	require.NotNil(t, failed.Problem)
	assert.NotEmpty(t, failed.Problem.ErrorCode)
	assert.NotEmpty(t, failed.Problem.TraceID)
}

func TestSignInAgain(t *testing.T) {
	for _, test := range []struct {
		name string
		end  func(*lendingtest.Server)
	}{
		{"after the token has expired", func(s *lendingtest.Server) { s.ExpireTokens() }},
		{"after it was revoked", func(s *lendingtest.Server) { s.RevokeTokens() }},
	} {
		t.Run(test.name, func(t *testing.T) {
			service, client := fake.Start(t)
			customer, err := client.Applications.CreateCustomer(t.Context(), fake.Ada())
			require.NoError(t, err)
			test.end(service)
			list, err := client.Applications.ListByCustomer(t.Context(), customer.ID)
			require.NoError(t, err, "a read comes back with a new token")
			assert.Empty(t, list)
			assert.Equal(t, 2, service.Executed(fake.LoginRoute))
			test.end(service)
			other := fake.Ada()
			other.Email = "grace@example.com"
			_, err = client.Applications.CreateCustomer(t.Context(), other)
			require.ErrorIs(t, err, lending.ErrUnauthorized, "a mutation is not sent twice")
			assert.Equal(t, lending.OutcomeRejected, lending.OutcomeOf(err))
			_, err = client.Applications.CreateCustomer(t.Context(), other)
			require.NoError(t, err, "the next call signs in")
			assert.Equal(t, 3, service.Arrived(fake.CreateRoute))
			assert.Equal(t, 2, service.Executed(fake.CreateRoute))
		})
	}
}

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
			fake.NeedsControl(t)
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
	fake.NeedsControl(t)
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

func TestUnreachableService(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := "http://" + listener.Addr().String()
	require.NoError(t, listener.Close())
	client := wire.NewClient(t, address, lending.WithTokenSource(lending.StaticToken("hush")))
	_, err = client.Applications.CreateCustomer(t.Context(), fake.Ada())
	require.ErrorContains(t, err, "cannot connect to "+listener.Addr().String()+": not sent")
	assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
	var network *net.OpError
	require.ErrorAs(t, err, &network)
}

// The service knows the outcome. The error must agree.
func TestOutcomesAgainstTheService(t *testing.T) {
	for _, test := range []struct {
		name     string
		fault    lendingtest.Fault
		outcome  lending.Outcome
		executed int
	}{
		{"reset before", lendingtest.Fault{ResetBefore: true}, lending.OutcomeUnknown, 0},
		{"reset after", lendingtest.Fault{ResetAfter: true}, lending.OutcomeUnknown, 1},
		{"502", lendingtest.Fault{Status: http.StatusBadGateway}, lending.OutcomeUnknown, 0},
		{
			"502 though executed",
			lendingtest.Fault{Status: http.StatusBadGateway, Executes: true},
			lending.OutcomeUnknown, 1,
		},
		{
			"429",
			lendingtest.Fault{Status: http.StatusTooManyRequests, RetryAfter: time.Second},
			lending.OutcomeRejected,
			0,
		},
		{"cut answer", lendingtest.Fault{CutBody: 5}, lending.OutcomeDone, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			service, client := fake.Start(t)
			_, err := client.Applications.ListByCustomer(t.Context(), catalog.OtherCustomer) // signs in
			_ = err
			service.Fail(fake.CreateRoute, test.fault)
			_, err = client.Applications.CreateCustomer(t.Context(), fake.Ada())
			require.Error(t, err)
			assert.Equal(t, test.outcome, lending.OutcomeOf(err), err)
			assert.Equal(t, 1, service.Arrived(fake.CreateRoute))
			assert.Equal(t, test.executed, service.Executed(fake.CreateRoute))
		})
	}
}

// A read comes back after a transient failure.
func TestReadIsRepeated(t *testing.T) {
	t.Parallel()
	service, client := fake.Start(t)
	customer, err := client.Applications.CreateCustomer(t.Context(), fake.Ada())
	require.NoError(t, err)
	id, err := client.Applications.Create(t.Context(), lending.ApplicationRequest{
		CustomerID:   customer.ID,
		BusinessName: "B", BusinessZip: "94105",
	}, nil)
	require.NoError(t, err)
	for _, test := range []struct {
		name  string
		fault lendingtest.Fault
	}{
		{"503", lendingtest.Fault{Status: http.StatusServiceUnavailable}},
		{"reset", lendingtest.Fault{ResetBefore: true}},
		{"cut body", lendingtest.Fault{CutBody: 3}},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := service.Arrived(fake.StatusRoute)
			service.Fail(fake.StatusRoute, test.fault)
			status, err := client.Applications.Status(t.Context(), id)
			require.NoError(t, err)
			assert.Equal(t, lendingtest.StatusCreated, status)
			assert.Equal(t, before+2, service.Arrived(fake.StatusRoute))
		})
	}
}
