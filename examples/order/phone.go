package order

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/lendingtest"
)

// New returns a partner with a client of the embedded service at address, whose customers have
// phones at phonePath.
func New(address, phonePath string, keys *idempotency.Log, opts ...lending.Option) (*Partner, error) {
	client, err := lending.New(address, append(opts, lending.WithIdempotency(keys), lending.WithCredentials(lending.Credentials{
		Username:           lendingtest.Username,
		Password:           lending.NewSecret(lendingtest.Password),
		TrustedDeviceToken: lending.NewSecret(lendingtest.TrustedDeviceToken), // no two-factor code is needed
	}))...)
	return &Partner{Client: client, Ask: Phone(address + phonePath)}, err
}

// Phone returns a function for [Partner].Ask, for a demonstration: the customer has entered the
// last password at once. The page at address and the id of a loan shows it. Your program reads the
// password that the customer has entered from its table.
func Phone(address string) func(context.Context, Order, lending.LoanID) (lending.Secret, error) {
	return func(ctx context.Context, _ Order, loan lending.LoanID) (lending.Secret, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, address+loan.String(), nil)
		if err != nil {
			return lending.Secret{}, err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return lending.Secret{}, err
		}
		defer response.Body.Close()
		password, err := io.ReadAll(response.Body)
		if response.StatusCode != http.StatusOK {
			err = errors.Join(err, fmt.Errorf("the phone answers %s", response.Status))
		}
		return lending.NewSecret(string(password)), err
	}
}
