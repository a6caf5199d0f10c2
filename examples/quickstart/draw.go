package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/lendingapi/lending-go"
)

// draw finds the loan of the application and withdraws money. sentCode returns the one-time
// password that a customer reads on a phone.
func draw(ctx context.Context, out io.Writer, client *lending.Client, customer lending.CustomerID,
	application lending.ApplicationID, sentCode func(lending.LoanID) string,
) error {
	loan, err := findLoan(ctx, client, customer, application)
	if err != nil {
		return err
	}
	say(out, "Found loan %s among the customer's loans.", loan)

	calculation := lending.CalculationRequest{Amount: "2500.00", Terms: 6}
	if _, err := client.Calculation.Invoice(ctx, application, &calculation); err != nil {
		return err
	}
	say(out, "Calculated a withdrawal of %s over %d terms. The service saves the calculation and compares the withdrawal with it.", calculation.Amount, calculation.Terms)
	withdrawal, err := client.Loans.WithdrawInvoice(ctx, loan, lending.InvoiceWithdrawalRequest{Calculation: calculation})
	if err != nil {
		return err
	}
	say(out, "Started a withdrawal of %s at an advance rate of %s. The customer receives a one-time password.", withdrawal.Amount, withdrawal.AdvanceRate)

	if _, err := client.Loans.ConfirmInvoiceWithdrawal(ctx, *withdrawal, lending.WithdrawInvoiceRequestData{
		DateUTC: time.Now(),
		OTP:     lending.NewSecret(sentCode(loan)),
	}); err != nil {
		return err
	}
	say(out, "Confirmed the withdrawal with the password. The service pays out the money.")
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

// account prints the balance and the transactions.
func account(ctx context.Context, out io.Writer, client *lending.Client, loan lending.LoanID) error {
	balance, err := client.Loans.TotalBalance(ctx, loan)
	if err != nil {
		return err
	}
	var owed struct{ TotalBalance, AvailableBalance json.Number }
	if err := balance.Decode(&owed); err != nil {
		return err
	}
	say(out, "The balance is %s, and %s is still available.", owed.TotalBalance, owed.AvailableBalance)
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
