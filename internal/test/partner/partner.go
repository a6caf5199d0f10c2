// Package partner is what a partner's program does for one order, from nothing to a confirmed
// withdrawal: the examples under contrib share it. Each command has a key that is made of the
// order. The function that does it all begins at the top each time, and what it has done stands
// in the idempotency log and nowhere else.
package partner

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
)

// Order is a row of the partner's own table.
type Order struct {
	ID     string
	Email  string
	Amount json.Number
	Asked  time.Time // when the customer asked for the money
}

// key returns a context with the key of one command of the order.
func (o Order) key(ctx context.Context, command string) context.Context {
	return lending.WithIdempotencyKey(ctx, o.ID+"/"+command)
}

// Partner carries orders out.
type Partner struct {
	Client *lending.Client
	Phone  string // address of the page where a customer reads the one-time password
}

// Onboard goes the whole way of an order. The requests are the same each time: they are made of
// the order and of answers, not of the clock.
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

// apply leads from nothing to an offer.
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
	return customer.ID, application, p.process(ctx, o, application)
}

// process has the application processed. An offer shows that it was. Where there is none the
// log asks a person, because nothing published says what processing without an offer leads to.
// This partner knows: an offer comes at once here, or an error. So WithCheck decides.
func (p *Partner) process(ctx context.Context, o Order, application lending.ApplicationID) error {
	ctx = idempotency.WithCheck(o.key(ctx, "process"), func(ctx context.Context) (idempotency.Verdict, error) {
		_, err := p.Client.Applications.Offer(ctx, application, nil)
		switch {
		case err == nil:
			return idempotency.Happened(nil), nil // without its answer, the id of the offer, which nobody needs here
		case lending.IsNotFound(err):
			return idempotency.NotHappened(), nil
		}
		return idempotency.Verdict{}, err
	})
	_, err := p.Client.Applications.Process(ctx, application)
	return unlessDone(err)
}

// unlessDone passes on an error unless the command has happened, where nobody needs its answer.
func unlessDone(err error) error {
	if lending.OutcomeOf(err) == lending.OutcomeDone {
		return nil
	}
	return err
}

// findLoan finds the loan that the application has led to: a read, which needs no key.
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

// draw draws the money.
func (p *Partner) draw(ctx context.Context, o Order, application lending.ApplicationID, loan lending.LoanID) error {
	calculation := lending.CalculationRequest{Amount: o.Amount, Terms: 6}
	if _, err := p.Client.Calculation.Invoice(o.key(ctx, "calculate"), application, &calculation); err != nil {
		return err
	}
	// This sends a one-time password and moves no money: no read shows it, and two do no harm.
	withdrawal, err := p.Client.Loans.WithdrawInvoice(idempotency.SafeToRepeat(o.key(ctx, "withdraw")), loan,
		lending.InvoiceWithdrawalRequest{Calculation: calculation})
	if err != nil {
		return err
	}
	password, err := p.ask(ctx, loan)
	if err != nil {
		return err
	}
	// The date is that of the order. With time.Now() each try would be another request, which
	// the key refuses once one has left. The password may be another: it is no part of that.
	_, err = p.Client.Loans.ConfirmInvoiceWithdrawal(o.key(ctx, "confirm"), *withdrawal, lending.WithdrawInvoiceRequestData{
		DateUTC: o.Asked,
		OTP:     password,
	})
	if lending.OutcomeOf(err) == lending.OutcomeRejected { // perhaps a later password has replaced this one
		return laterError("the withdrawal is not confirmed: " + err.Error())
	}
	return unlessDone(err)
}

// laterError is an error of the partner's own, which answers lending.NextOf by itself.
type laterError string

func (e laterError) Error() string { return string(e) }

// Next has the order go on in a second.
func (laterError) Next() lending.Next { return lending.Next{Retry: true, After: time.Second} }

// ask asks the customer for the one-time password. Here it is the one that was sent last.
func (p *Partner) ask(ctx context.Context, loan lending.LoanID) (lending.Secret, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.Phone+loan.String(), nil)
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
