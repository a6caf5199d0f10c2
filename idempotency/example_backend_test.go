package idempotency_test

import (
	"context"
	"fmt"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/lendingtest"
)

// drawing is a row in the backend's own database: a withdrawal that somebody wants.
type drawing struct {
	ID          string
	Application lending.ApplicationID
	Loan        lending.LoanID
	Calculation lending.CalculationRequest
	Date        time.Time // of the row: another date would be another request
}

// draw completes a drawing. A call continues where the last call ended, also after a crash and in
// another process. The function otp waits for the one-time password, and requests another if the
// last has expired.
func draw(ctx context.Context, client *lending.Client, d drawing, otp func() lending.Secret) error {
	key := func(step string) context.Context {
		return lending.WithIdempotencyKey(ctx, "drawing-"+d.ID+"/"+step)
	}
	if _, err := client.Calculation.Invoice(key("calculate"), d.Application, &d.Calculation); err != nil {
		return err
	}
	withdrawal, err := client.Loans.WithdrawInvoice(idempotency.SafeToRepeat(key("begin")), d.Loan,
		lending.InvoiceWithdrawalRequest{Calculation: d.Calculation}) // a second password does no harm
	if err != nil {
		return err
	}
	_, err = client.Loans.ConfirmInvoiceWithdrawal(key("confirm"), *withdrawal,
		lending.WithdrawInvoiceRequestData{DateUTC: d.Date, OTP: otp()})
	if lending.OutcomeOf(err) == lending.OutcomeDone {
		return nil // the money has moved, and only the response is lost
	}
	return err // call draw again as lending.NextOf says
}

// A withdrawal is confirmed, but the response is lost. The next call finds out that the withdrawal
// happened, and sends nothing.
func Example_backend() {
	// The stores of contrib/bolt, contrib/redis and contrib/postgres survive the process.
	keys := must(idempotency.NewLog(store.NewMemory(), nil))
	service, client := demo(lending.WithIdempotency(keys))
	row := service.AddLoan(lendingtest.Loan{})
	d := drawing{
		ID: "17", Application: must(lending.ParseApplicationID(row.ApplicationID)), Loan: must(lending.ParseLoanID(row.ID)),
		Calculation: lending.CalculationRequest{Amount: "2500.00", Terms: 6},
		Date:        time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC),
	}
	otp := func() lending.Secret { return lending.NewSecret(service.OTP(row.ID)) } // a person reads it from a phone

	const confirm = "POST /api/Loan/confirm-withdrawal-invoice/{loanId}"
	service.Fail(confirm, lendingtest.Fault{ResetAfter: true})
	for range 3 {
		fmt.Println(draw(context.Background(), client, d, otp))
	}
	fmt.Println("withdrawn", service.Executed(confirm), "time")
	// Output:
	// lending: POST /api/Loan/confirm-withdrawal-invoice/{loanId}: connection reset: outcome unknown, check with Loans.Withdrawals, Loans.TotalBalance
	// <nil>
	// <nil>
	// withdrawn 1 time
}
