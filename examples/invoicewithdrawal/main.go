// Invoicewithdrawal draws money from an invoice loan: calculation, withdrawal, one-time
// password, confirmation. The connection breaks at the worst moment: the service has moved the
// money but its response is lost. The program checks the loan instead of confirming again.
//
// The program needs only Go, because it contains the service.
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
	say(out, "The confirmation fails: %v", err)
	if !errors.Is(err, lending.ErrMayHaveHappened) {
		return err
	}
	if err := check(ctx, out, client, loanID); err != nil {
		return err
	}
	say(out, "The service executed the confirmation %d time.", service.Executed(confirmRoute))
	return nil
}

// begin calculates the withdrawal and starts it. The result is the JSON that the program keeps
// until the password arrives, perhaps minutes later and in another process.
func begin(ctx context.Context, out io.Writer, client *lending.Client, application lending.ApplicationID, loan lending.LoanID) ([]byte, error) {
	calculation := lending.CalculationRequest{Amount: "2500.00", Terms: 6}
	if _, err := client.Calculation.Invoice(ctx, application, &calculation); err != nil {
		return nil, err
	}
	say(out, "The service has calculated %s over %d terms and saved the calculation.", calculation.Amount, calculation.Terms)

	withdrawal, err := client.Loans.WithdrawInvoice(ctx, loan, lending.InvoiceWithdrawalRequest{Calculation: calculation})
	if err != nil {
		return nil, err
	}
	say(out, "Started the withdrawal of %s at an advance rate of %s. No money has moved.", withdrawal.Amount, withdrawal.AdvanceRate)
	return json.Marshal(withdrawal)
}

// confirm confirms a saved withdrawal. Loan, amount and rate come from the saved JSON, so the
// caller cannot confirm anything else.
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

// check calls the reads that the error names, to find out whether the money has moved.
func check(ctx context.Context, out io.Writer, client *lending.Client, loan lending.LoanID) error {
	page, err := client.Loans.Withdrawals(ctx, loan, nil)
	if err != nil {
		return err
	}
	if page.TotalCount == 0 {
		say(out, "The loan has no withdrawal yet. The confirmation may still be in flight: check again for some minutes before you confirm again.")
		return nil
	}
	var drawn struct{ Amount json.Number } // the name in the embedded service; the name is not published
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
	say(out, "The loan has a withdrawal of %s and a balance of %s, so the confirmation ran. The program does not send it again.", drawn.Amount, owed.TotalBalance)
	return nil
}

func say(out io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(out, format+"\n", args...) }
