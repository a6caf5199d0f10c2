package lending_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"
)

// drawing is a row in the backend's own database: a withdrawal that has been begun.
type drawing struct {
	Withdrawal lending.InvoiceWithdrawal
	Sent       time.Time // zero if it may be confirmed
	Before     account   // what there was then
	Completed  bool
}

// account is what shows whether a withdrawal from a loan has happened: the two reads that
// the error names.
type account struct {
	Withdrawals int
	Balance     string // the record as it came, with the fields that nobody published
}

// backend stands for a program, and rows for its table: a column of text.
type backend struct {
	client *lending.Client
	rows   map[string][]byte
}

// save stands for an UPDATE that fails if another process has changed the row meanwhile.
func (b *backend) save(id string, row drawing) error {
	text, err := json.Marshal(row)
	if err == nil {
		b.rows[id] = text
	}
	return err
}

func (b *backend) look(ctx context.Context, loan lending.LoanID) (account, error) {
	withdrawals, err := b.client.Loans.Withdrawals(ctx, loan, nil)
	if err != nil {
		return account{}, err
	}
	balance, err := b.client.Loans.TotalBalance(ctx, loan)
	if err != nil {
		return account{}, err
	}
	return account{withdrawals.TotalCount, string(balance.Raw())}, nil
}

// confirm moves the money. One withdrawal of a loan is confirmed at a time, and by nobody
// else: settle tells it from others by their number.
func (b *backend) confirm(ctx context.Context, id string, row drawing, otp lending.Secret) error {
	if !row.Sent.IsZero() {
		return errors.New("it may have happened: settle it first")
	}
	before, err := b.look(ctx, row.Withdrawal.LoanID)
	if err != nil {
		return err
	}

	row.Before, row.Sent = before, time.Now()
	if err := b.save(id, row); err != nil { // first: from here on the process may end at any time
		return err
	}
	_, err = b.client.Loans.ConfirmInvoiceWithdrawal(ctx, row.Withdrawal, lending.WithdrawInvoiceRequestData{
		DateUTC: row.Sent, OTP: otp,
	})
	switch lending.OutcomeOf(err) {
	case lending.OutcomeDone: // which success is too
		row.Completed = true
	case lending.OutcomeNotSent, lending.OutcomeRejected:
		row.Sent = time.Time{}
	case lending.OutcomeUnknown:
		return err // settle finds out
	}
	return errors.Join(err, b.save(id, row))
}

// settle is called at start-up, and then every minute, for each row that was sent and is
// not completed.
func (b *backend) settle(ctx context.Context, id string, row drawing) error {
	now, err := b.look(ctx, row.Withdrawal.LoanID)
	if err != nil {
		return err
	}

	switch {
	case now.Withdrawals > row.Before.Withdrawals:
		row.Completed = true
	case time.Since(row.Sent) < 10*time.Minute:
		return nil // an absence proves nothing yet
	case now.Balance == row.Before.Balance:
		row.Sent = time.Time{} // nothing has moved: it may be confirmed again
	default:
		return errors.New("the balance has changed, and there is no withdrawal: a person has to look")
	}
	return b.save(id, row)
}

// A withdrawal is written down before it is confirmed. The answer is lost, and a process
// that has been started since finds out what happened.
func Example_backend() {
	service := lendingtest.NewServer()
	defer service.Close()
	loan := service.AddLoan(lendingtest.Loan{})
	client, err := lending.New(service.URL, lending.WithTokenSource(lending.StaticToken(service.Token(lendingtest.Username))))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	ctx, b := context.Background(), &backend{client, map[string][]byte{}}
	var row drawing
	if row.Withdrawal, err = begin(ctx, client, loan.ApplicationID, loan.ID); err != nil {
		fmt.Println(err)
		return
	}
	service.Fail("POST /api/Loan/confirm-withdrawal-invoice/{loanId}", lendingtest.Fault{ResetAfter: true})
	fmt.Println(b.confirm(ctx, "drawing 1", row, lending.NewSecret(service.OTP(loan.ID))))

	var found drawing // by the next process, in the table
	err = json.Unmarshal(b.rows["drawing 1"], &found)
	fmt.Println("completed:", found.Completed, err)
	err = b.settle(ctx, "drawing 1", found)
	fmt.Println(err)
	err = json.Unmarshal(b.rows["drawing 1"], &found)
	fmt.Println("completed:", found.Completed, err)
	// Output:
	// lending: POST /api/Loan/confirm-withdrawal-invoice/{loanId}: connection reset: outcome unknown, settle it with Loans.Withdrawals, Loans.TotalBalance
	// completed: false <nil>
	// <nil>
	// completed: true <nil>
}

// begin calculates a withdrawal and begins it, so that a one-time password is sent.
func begin(ctx context.Context, client *lending.Client, applicationID, loanID string) (begun lending.InvoiceWithdrawal, _ error) {
	application, err := lending.ParseApplicationID(applicationID)
	if err != nil {
		return begun, err
	}
	loan, err := lending.ParseLoanID(loanID)
	if err != nil {
		return begun, err
	}
	calculation := lending.CalculationRequest{Amount: "2500.00", Terms: 6}
	if _, err := client.Calculation.Invoice(ctx, application, &calculation); err != nil {
		return begun, err
	}
	withdrawal, err := client.Loans.WithdrawInvoice(ctx, loan, lending.InvoiceWithdrawalRequest{Calculation: calculation})
	if err != nil {
		return begun, err
	}
	return *withdrawal, nil
}
