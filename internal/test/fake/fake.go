// Package fake starts the embedded service for tests of the whole client.
package fake

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/uuid"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/lendingtest"
)

// Newcomer returns a new customer. Each call returns another e-mail address.
func Newcomer() lending.UserRequest {
	customer := Ada()
	customer.Email = "ada-" + strings.ReplaceAll(uuid.NewString(), "-", "") + "@example.com"
	return customer
}

// Must returns the value of a call that must succeed.
func Must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// Invoice returns a calculation that the embedded service accepts.
func Invoice() *lending.CalculationRequest {
	return &lending.CalculationRequest{
		Amount: "2500.00", PercentOfIncome: "12.5", Terms: 6,
		FixedRepaymentCalculation: true,
	}
}

// Ada returns a valid customer.
func Ada() lending.UserRequest {
	return lending.UserRequest{
		FirstName: "Ada", LastName: "Lovelace", Email: "ada@example.com",
		Password: lending.NewSecret("A-hush-Pass-1"), MobileNumber: "(415) 555-0100",
	}
}

// Routes whose calls tests count or let fail.
const (
	LoginRoute     = "POST /api/Authenication/login"
	TwoFactorRoute = "POST /api/Authenication/validate-two-factor"
	CreateRoute    = "POST /api/Application/create-customer"
	ProcessRoute   = "GET /api/Application/process-application/{applicationId}"
	StatusRoute    = "GET /api/Application/application-status/{applicationId}"
	RefreshRoute   = "POST /api/Authenication/refresh-token"
	ListRoute      = "GET /api/Application/get-customer-applications/{customerId}"
	EmailRoute     = "GET /api/Customer/get-customer-by-email"
)

// Start starts the embedded service and returns a signed-in client. The client reads its
// two-factor codes from the service.
func Start(t *testing.T, opts ...lendingtest.Option) (*lendingtest.Server, *lending.Client) {
	t.Helper()
	service := lendingtest.NewServer(append(opts, lendingtest.WithBasePath(wire.BasePath))...)
	t.Cleanup(service.Close)
	return service, wire.NewClient(t, service.URL, lending.WithCredentials(Credentials(service)))
}

// Credentials returns the credentials of the embedded service. They read the two-factor codes
// from the service.
func Credentials(service interface{ TwoFactorCode(string) string }) lending.Credentials {
	return lending.Credentials{
		Username: lendingtest.Username,
		Password: lending.NewSecret(lendingtest.Password),
		TwoFactor: func(context.Context, lending.Challenge) (string, error) {
			return service.TwoFactorCode(lendingtest.Username), nil
		},
	}
}

// InBubble runs test on fake time, with a service without sockets.
func InBubble(t *testing.T, test func(t *testing.T, service *lendingtest.Service), opts ...lendingtest.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		service := lendingtest.New(opts...)
		defer service.Close()
		test(t, service)
	})
}

// SignIn returns a client of service. The client reads its two-factor codes from the service.
func SignIn(t *testing.T, service *lendingtest.Service, change func(*lending.Credentials),
	opts ...lending.Option,
) *lending.Client {
	t.Helper()
	credentials := Credentials(service)
	if change != nil {
		change(&credentials)
	}
	return wire.NewClient(t, "http://127.0.0.1", append([]lending.Option{
		lending.WithCredentials(credentials), lending.WithHTTPClient(&http.Client{Transport: service.Transport()}),
	}, opts...)...)
}
