// Invoicewithdrawal draws money from an invoice loan: calculation, withdrawal,
// one-time password, confirmation. The connection breaks at the worst moment, after
// the service has moved the money and before it has said so, and the program finds
// out instead of confirming again.
//
// It needs nothing but Go: the service runs inside it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"
)

const confirmRoute = "POST /api/Loan/confirm-withdrawal-invoice/{loanId}"

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "invoicewithdrawal:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	service := lendingtest.NewServer()
	defer service.Close()
	loan := service.AddLoan(lendingtest.Loan{Amount: 40_000_00, AvailableBalance: 40_000_00, IsEnabled: true})
	client, err := lending.New(service.URL, lending.WithTokenSource(lending.StaticToken(service.Token(lendingtest.Username))))
	if err != nil {
		return err
	}
	defer client.Close()
	application, err := lending.ParseApplicationID(loan.ApplicationID)
	if err != nil {
		return err
	}
	loanID, err := lending.ParseLoanID(loan.ID)
	if err != nil {
		return err
	}

	stored, err := begin(ctx, out, client, application, loanID)
	if err != nil {
		return err
	}
	say(out, "The one-time password %q reaches the customer's phone.", service.OTP(loan.ID))

	service.Fail(confirmRoute, lendingtest.Fault{ResetAfter: true})
	err = confirm(ctx, client, stored, lending.NewSecret(service.OTP(loan.ID)))
	say(out, "Confirming fails: %v", err)
	if !errors.Is(err, lending.ErrMayHaveHappened) {
		return err
	}
	if err := check(ctx, out, client, loanID); err != nil {
		return err
	}
	say(out, "The service executed the confirmation %d time.", service.Executed(confirmRoute))
	return nil
}

// begin calculates and begins the withdrawal. It returns what must be kept until the
// password comes, as JSON: that may be minutes later, and in another process.
func begin(ctx context.Context, out io.Writer, client *lending.Client, application lending.ApplicationID, loan lending.LoanID) ([]byte, error) {
	calculation := lending.CalculationRequest{Amount: "2500.00", Terms: 6}
	if _, err := client.Calculation.Invoice(ctx, application, &calculation); err != nil {
		return nil, err
	}
	say(out, "The service has calculated and stored %s over %d terms.", calculation.Amount, calculation.Terms)

	withdrawal, err := client.Loans.WithdrawInvoice(ctx, loan, lending.InvoiceWithdrawalRequest{Calculation: calculation})
	if err != nil {
		return nil, err
	}
	say(out, "Began the withdrawal of %s at an advance rate of %s. No money has moved.", withdrawal.Amount, withdrawal.AdvanceRate)
	return json.Marshal(withdrawal)
}

// confirm completes a withdrawal that was kept. Loan, amount and rate come from it,
// so that nothing else can be confirmed than what was begun.
func confirm(ctx context.Context, client *lending.Client, stored []byte, otp lending.Secret) error {
	var withdrawal lending.InvoiceWithdrawal
	if err := json.Unmarshal(stored, &withdrawal); err != nil {
		return err
	}
	_, err := client.Loans.ConfirmInvoiceWithdrawal(ctx, withdrawal, lending.WithdrawInvoiceRequestData{
		DateUTC: time.Now(),
		OTP:     otp,
	})
	return err
}

// check reads what the error names, to learn whether the money has moved.
func check(ctx context.Context, out io.Writer, client *lending.Client, loan lending.LoanID) error {
	page, err := client.Loans.Withdrawals(ctx, loan, nil)
	if err != nil {
		return err
	}
	if page.TotalCount == 0 {
		say(out, "The loan has no withdrawal yet. It may still be under way: look again for some minutes before confirming again.")
		return nil
	}
	var drawn struct{ Amount json.Number } // the embedded service's name: the interface shows none
	if err := page.Data[0].Decode(&drawn); err != nil {
		return err
	}
	balance, err := client.Loans.TotalBalance(ctx, loan)
	if err != nil {
		return err
	}
	var owed struct{ TotalBalance json.Number }
	if err := balance.Decode(&owed); err != nil {
		return err
	}
	say(out, "The loan has a withdrawal of %s and a balance of %s: it happened. Nothing is sent again.", drawn.Amount, owed.TotalBalance)
	return nil
}

func say(out io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(out, format+"\n", args...) }
