package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/riverqueue/river"

	lendingriver "github.com/lendingapi/lending-go/contrib/river"
)

// worker takes orders from nothing to a confirmed withdrawal. What it has done stands in the
// log and nowhere else: each attempt begins at the top.
type worker struct {
	river.WorkerDefaults[onboardArgs]

	client *lending.Client
	pool   *pgxpool.Pool
	phone  string // address of the page where a customer enters the one-time password
}

const (
	// jobTimeout is for one attempt. A worker that comes after one which was killed does not
	// touch its last command before that time is over: the other might be alive.
	jobTimeout = time.Second
	// rescueAfter is when the job of a worker that was killed is given to another. It is
	// longer than jobTimeout: nobody is at the job any more then. Without it that is an hour.
	rescueAfter = 1500 * time.Millisecond
)

// jobConfig is how River works the jobs. Yours has a JobTimeout of a minute and rescues after
// two: nothing is done twice if they are wrong, and all takes longer.
func jobConfig(w river.Worker[onboardArgs]) *river.Config {
	workers := river.NewWorkers()
	river.AddWorker(workers, w)
	return &river.Config{
		Queues:               map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 4}},
		Workers:              workers,
		JobTimeout:           jobTimeout,
		RescueStuckJobsAfter: rescueAfter,
		FetchPollInterval:    100 * time.Millisecond, // which is when a job that was snoozed is seen: yours leaves the second that it is
	}
}

// NextRetry does not let you wait: River itself lets a second pass, then 16, 81 and so on.
// Leave it out.
func (w *worker) NextRetry(*river.Job[onboardArgs]) time.Time { return time.Now() }

// Work is one attempt.
func (w *worker) Work(ctx context.Context, job *river.Job[onboardArgs]) error {
	return lendingriver.JobError(w.onboard(ctx, job))
}

// onboard goes the whole way of an order, each time from the top. Each command has a key of
// the order's, and none of the job's: what has happened is not sent again, and its answer is
// as it was. So must the requests be: they are made of the order and of answers, not of the
// clock.
func (w *worker) onboard(ctx context.Context, job *river.Job[onboardArgs]) error {
	o, err := load(ctx, w.pool, job.Args.Order)
	if err != nil {
		return err
	}
	customer, err := w.client.Applications.CreateCustomer(lending.WithIdempotencyKey(ctx, o.ID+"/create-customer"), lending.UserRequest{
		FirstName:    "Ada",
		LastName:     "Lovelace",
		Email:        o.Email,
		Password:     lending.NewSecret("Analytical-Engine-1"),
		MobileNumber: "(415) 555-0100",
	})
	if err != nil {
		return err
	}
	application, err := w.client.Applications.Create(lending.WithIdempotencyKey(ctx, o.ID+"/create-application"), lending.ApplicationRequest{
		CustomerID:   customer.ID,
		BusinessName: "Lovelace Analytics",
		BusinessZip:  "94105",
	}, nil)
	if err != nil {
		return err
	}
	if _, err := w.client.Applications.AddOrUpdateBankingData(lending.WithIdempotencyKey(ctx, o.ID+"/banking-data"), application, bankData(), nil); err != nil {
		return err
	}
	if err := w.process(ctx, o, application); err != nil {
		return err
	}
	loan, err := w.findLoan(ctx, customer.ID, application)
	if err != nil {
		return err
	}
	if err := w.draw(ctx, o, application, loan); err != nil {
		return err
	}
	return complete(ctx, w.pool, job)
}

// process has the application processed. An offer shows that it was. Where there is none the
// log asks a person, as nothing published says what processing leads to when it leads to
// no offer. This partner knows: an offer comes at once here, or an error. So he decides it
// himself, and processes again what has led to no offer for MaxLateness.
func (w *worker) process(ctx context.Context, o order, application lending.ApplicationID) error {
	offered := func(ctx context.Context) (idempotency.Verdict, error) {
		_, err := w.client.Applications.Offer(ctx, application, nil)
		switch {
		case err == nil:
			return idempotency.Happened(nil), nil // without its answer, the id of the offer, which nobody needs here
		case lending.IsNotFound(err):
			return idempotency.NotHappened(), nil
		}
		return idempotency.Verdict{}, err
	}
	_, err := w.client.Applications.Process(idempotency.WithCheck(lending.WithIdempotencyKey(ctx, o.ID+"/process"), offered), application)
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
func (w *worker) findLoan(ctx context.Context, customer lending.CustomerID, application lending.ApplicationID) (lending.LoanID, error) {
	loans, err := w.client.Loans.ListByCustomer(ctx, customer)
	if err != nil {
		return lending.LoanID{}, err
	}
	for _, loan := range loans {
		if loan.ApplicationID == application {
			return loan.ID, nil
		}
	}
	return lending.LoanID{}, river.JobSnooze(time.Second) // people decide in between: that takes no attempts
}

// draw draws the money.
func (w *worker) draw(ctx context.Context, o order, application lending.ApplicationID, loan lending.LoanID) error {
	calculation := lending.CalculationRequest{Amount: o.Amount, Terms: 6}
	if _, err := w.client.Calculation.Invoice(lending.WithIdempotencyKey(ctx, o.ID+"/calculate"), application, &calculation); err != nil {
		return err
	}
	// This sends a one-time password and moves no money: no read shows it, and two do no harm.
	withdrawal, err := w.client.Loans.WithdrawInvoice(idempotency.SafeToRepeat(lending.WithIdempotencyKey(ctx, o.ID+"/withdraw")), loan,
		lending.InvoiceWithdrawalRequest{Calculation: calculation})
	if err != nil {
		return err
	}
	password, err := w.ask(ctx, loan)
	if err != nil {
		return err
	}
	// The date is that of the order. With time.Now() each attempt would be another request,
	// which the key refuses once one has left. The password may be another: it is no part of
	// that.
	_, err = w.client.Loans.ConfirmInvoiceWithdrawal(lending.WithIdempotencyKey(ctx, o.ID+"/confirm"), *withdrawal, lending.WithdrawInvoiceRequestData{
		DateUTC: o.Asked,
		OTP:     password,
	})
	if lending.OutcomeOf(err) == lending.OutcomeRejected {
		// JobError would cancel the job. But a password that was sent after this one has
		// perhaps replaced it, so another attempt asks again.
		return fmt.Errorf("the withdrawal is not confirmed: %s", err) //nolint:errorlint // River is not to see what it wraps
	}
	return unlessDone(err)
}

// ask asks the customer for the one-time password. Here it is the one that was sent last.
func (w *worker) ask(ctx context.Context, loan lending.LoanID) (lending.Secret, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.phone+loan.String(), nil)
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

// The names in the bank data are those of the embedded service: the interface does not
// publish them. A partner's own struct goes here.
func bankData() *lending.BankingDataRequest {
	return &lending.BankingDataRequest{Extra: json.RawMessage(`{"accounts": [{
		"accountName": "Business checking", "accountNumber": "000123456789", "routingNumber": "110000000", "balance": "48210.55",
		"transactions": [{"date": "2026-08-03", "description": "Invoice 1041", "amount": "12500.00"}]
	}]}`)}
}
