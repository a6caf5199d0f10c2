package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/lendingapi/lending-go"
)

// draw finds the loan of the application and withdraws from it. sentCode returns the
// one-time password that a person would read on a phone.
func draw(ctx context.Context, out io.Writer, client *lending.Client, customer lending.CustomerID,
	application lending.ApplicationID, sentCode func(lending.LoanID) string,
) error {
	loan, err := findLoan(ctx, client, customer, application)
	if err != nil {
		return err
	}
	say(out, "Found loan %s among the customer's.", loan)

	calculation := lending.CalculationRequest{Amount: "2500.00", Terms: 6}
	if _, err := client.Calculation.Invoice(ctx, application, &calculation); err != nil {
		return err
	}
	say(out, "Calculated a withdrawal of %s over %d terms, which the service stores and will compare.", calculation.Amount, calculation.Terms)
	withdrawal, err := client.Loans.WithdrawInvoice(ctx, loan, lending.InvoiceWithdrawalRequest{Calculation: calculation})
	if err != nil {
		return err
	}
	say(out, "Began a withdrawal of %s at an advance rate of %s. A one-time password went to the customer.", withdrawal.Amount, withdrawal.AdvanceRate)

	if _, err := client.Loans.ConfirmInvoiceWithdrawal(ctx, *withdrawal, lending.WithdrawInvoiceRequestData{
		DateUTC: time.Now(),
		OTP:     lending.NewSecret(sentCode(loan)),
	}); err != nil {
		return err
	}
	say(out, "Confirmed it with the password: the money moves.")
	return account(ctx, out, client, loan)
}

func findLoan(ctx context.Context, client *lending.Client, customer lending.CustomerID, application lending.ApplicationID) (lending.LoanID, error) {
	loans, err := client.Loans.ListByCustomer(ctx, customer)
	if err != nil {
		return lending.LoanID{}, err
	}
	for _, loan := range loans {
		if loan.ApplicationID == application {
			return loan.ID, nil
		}
	}
	return lending.LoanID{}, errors.New("the application has not led to a loan yet")
}

// account shows balance and transactions.
func account(ctx context.Context, out io.Writer, client *lending.Client, loan lending.LoanID) error {
	balance, err := client.Loans.TotalBalance(ctx, loan)
	if err != nil {
		return err
	}
	var owed struct{ TotalBalance, AvailableBalance json.Number }
	if err := balance.Decode(&owed); err != nil {
		return err
	}
	say(out, "The balance is %s, and %s may still be drawn.", owed.TotalBalance, owed.AvailableBalance)
	for transaction, err := range client.Loans.AllTransactions(ctx, loan, nil) {
		if err != nil {
			return err
		}
		var moved struct {
			Amount      json.Number
			Description string
		}
		if err := transaction.Decode(&moved); err != nil {
			return err
		}
		say(out, "Transaction: %s, %s.", moved.Description, moved.Amount)
	}
	return nil
}
