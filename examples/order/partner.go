// Package partner is a partner's program for an order, from nothing to a confirmed withdrawal.
// The examples under contrib share it. Each command has an idempotency key made of the order.
// Onboard always starts at the first command; the progress is in the idempotency log only.
package order

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/lendingtest"
)

// SafeToRepeat are the mutations that this partner may repeat: the same details change nothing, and a
// second one-time password does no harm.
var SafeToRepeat = []idempotency.Route{idempotency.AddCompanyDetails, idempotency.WithdrawInvoice}

// Order is a row of the partner's own table.
type Order struct {
	ID     string
	Email  string
	Amount json.Number
	Asked  time.Time // when the customer asked for the money
}

// Orders returns n orders, and the e-mail addresses of their customers.
func Orders(n int) (orders []Order, emails []string) {
	for i := range n {
		emails = append(emails, fmt.Sprintf("customer-%d@example.com", i+1))
		orders = append(orders, Order{
			ID: fmt.Sprintf("order-%d", i+1), Email: emails[i], Amount: "2500.00",
			Asked: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC),
		})
	}
	return orders, emails
}

// key returns a context with the key of a command of the order.
func (o Order) key(ctx context.Context, command string) context.Context {
	return lending.WithIdempotencyKey(ctx, o.ID+"/"+command)
}

// Partner carries out orders.
type Partner struct {
	Client *lending.Client

	// Ask asks the customer for the one-time password of a loan.
	Ask func(context.Context, lending.LoanID) (lending.Secret, error)

	Persons bool // the partner has no checks of its own: persons decide what no published field shows
}

// checked returns a context with the key of a command, and with a check of the partner's own for
// the log: happened knows a field that the service does not publish.
func (p *Partner) checked(
	ctx context.Context, o Order, command string, happened func(context.Context) (bool, error),
) context.Context {
	if p.Persons {
		return o.key(ctx, command)
	}
	return idempotency.WithCheck(o.key(ctx, command), func(ctx context.Context) (idempotency.Verdict, error) {
		switch is, err := happened(ctx); {
		case err != nil:
			return idempotency.Verdict{}, err
		case is:
			return idempotency.Happened(nil), nil
		}
		return idempotency.NotHappened(), nil
	})
}

// New returns a partner with a client of the embedded service at address.
func New(address, phonePath string, keys *idempotency.Log, opts ...lending.Option) (*Partner, error) {
	credentials := lending.Credentials{
		Username:           lendingtest.Username,
		Password:           lending.NewSecret(lendingtest.Password),
		TrustedDeviceToken: lending.NewSecret(lendingtest.TrustedDeviceToken), // no two-factor code is needed
	}
	client, err := lending.New(address, append(opts, lending.WithIdempotency(keys), lending.WithCredentials(credentials))...)
	return &Partner{Client: client, Ask: Phone(address + phonePath)}, err
}

// Onboard does a whole order. The requests of each try are the same: they depend on the order
// and on responses, not on the clock.
func (p *Partner) Onboard(ctx context.Context, o Order) error {
	customer, application, err := p.apply(ctx, o)
	if err != nil {
		return err
	}
	if err := p.approve(ctx, o, application); err != nil {
		return err
	}
	loan, err := p.findLoan(ctx, customer, application)
	if err != nil {
		return err
	}
	return p.draw(ctx, o, application, loan)
}

// apply goes from nothing to an offer.
func (p *Partner) apply(ctx context.Context, o Order) (lending.CustomerID, lending.ApplicationID, error) {
	none := lending.ApplicationID{}
	customer, err := p.Client.Applications.CreateCustomer(o.key(ctx, "create-customer"), lending.UserRequest{
		FirstName:    "Ada",
		LastName:     "Lovelace",
		Email:        o.Email,
		Password:     lending.NewSecret("Analytical-Engine-1"),
		MobileNumber: "(415) 555-0100",
	})
	if err != nil {
		return lending.CustomerID{}, none, err
	}
	application, err := p.Client.Applications.Create(o.key(ctx, "create-application"), lending.ApplicationRequest{
		CustomerID:   customer.ID,
		BusinessName: "Lovelace Analytics",
		BusinessZip:  "94105",
	}, nil)
	if err != nil {
		return customer.ID, none, err
	}
	if _, err := p.Client.Applications.AddOrUpdateBankingData(o.key(ctx, "banking-data"), application, bankData(), nil); err != nil {
		return customer.ID, none, err
	}
	_, err = p.Client.Applications.Process(o.key(ctx, "process"), application)
	return customer.ID, application, err
}

// findLoan finds the loan of the application. A read needs no key.
func (p *Partner) findLoan(ctx context.Context, customer lending.CustomerID, application lending.ApplicationID) (lending.LoanID, error) {
	loans, err := p.Client.Loans.ListByCustomer(ctx, customer)
	if err != nil {
		return lending.LoanID{}, err
	}
	for _, loan := range loans {
		if loan.ApplicationID == application {
			return loan.ID, nil
		}
	}
	return lending.LoanID{}, laterError("the application has not led to a loan yet")
}

// draw withdraws the money.
func (p *Partner) draw(ctx context.Context, o Order, application lending.ApplicationID, loan lending.LoanID) error {
	calculation := lending.CalculationRequest{Amount: o.Amount, Terms: 6}
	if _, err := p.Client.Calculation.Invoice(o.key(ctx, "calculate"), application, &calculation); err != nil {
		return err
	}
	withdrawal, err := p.Client.Loans.WithdrawInvoice(o.key(ctx, "withdraw"), loan,
		lending.InvoiceWithdrawalRequest{Calculation: calculation})
	if err != nil {
		return err
	}
	password, err := p.Ask(ctx, loan)
	if err != nil {
		return err
	}
	// The date comes from the order. With time.Now() each try would be another request, and the
	// key would reject the second. The password may change: secrets are not part of the
	// comparison.
	_, err = p.Client.Loans.ConfirmInvoiceWithdrawal(o.key(ctx, "confirm"), *withdrawal, lending.WithdrawInvoiceRequestData{
		DateUTC: o.Asked,
		OTP:     password,
	})
	if lending.OutcomeOf(err) == lending.OutcomeRejected { // a later password may have replaced this password
		return laterError("the withdrawal is not confirmed: " + err.Error())
	}
	return err
}

// laterError is an error of the partner. lending.NextOf calls its Next method.
type laterError string

func (e laterError) Error() string { return string(e) }

// Next tells the order to go on in a second.
func (laterError) Next() lending.Next { return lending.Next{Retry: true, After: time.Second} }

// Phone returns a function for [Partner.Ask]. The page at address shows the last password of a loan.
func Phone(address string) func(context.Context, lending.LoanID) (lending.Secret, error) {
	return func(ctx context.Context, loan lending.LoanID) (lending.Secret, error) {
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
