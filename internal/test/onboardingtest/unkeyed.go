package onboardingtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/onboarding"
)

// order is the state of an order of a worker without a log, which keeps it in a file.
type order struct {
	N           int
	Customer    lending.CustomerID
	Application lending.ApplicationID
	Loan        lending.LoanID
	Withdrawal  lending.InvoiceWithdrawal
	Done        map[string]bool // the finished steps
}

// step is a command of an order.
type step struct {
	name string
	do   func(ctx context.Context, w *worker, o *order) error
	seen func(ctx context.Context, w *worker, o *order) (bool, error) // checks the reads of the error; nil if a repetition does no harm
}

// worker takes orders from nothing to a confirmed withdrawal without a log.
type worker struct {
	client  *lending.Client
	address string
	keep    string // the folder of the orders
}

// steps are the steps of an order without the approval.
var steps = []step{
	{"create-customer", createCustomer, customerSeen},
	{"create-application", createApplication, applicationSeen},
	{"banking-data", addBankingData, nil},
	{"process", process, offerSeen},
	{"find-loan", findLoan, nil}, // a read
	{"calculate", calculate, nil},
	{"withdraw", withdraw, nil},
	{"confirm", confirm, withdrawalSeen},
}

func (o *order) key(s step) string { return "order-" + strconv.Itoa(o.N) + "/" + s.name }

var errDrawnUp = errors.New("so many withdrawals were made that no credit is left")

// persist tries an order until it is done.
func (w *worker) persist(ctx context.Context, n int) error {
	for {
		limited, cancel := context.WithTimeout(ctx, patience)
		err := w.unkeyed(limited, &order{N: n, Done: map[string]bool{}})
		cancel()
		switch {
		case errors.Is(err, errDrawnUp): // the service counts how often
			return nil
		case err == nil, ctx.Err() != nil:
			return err
		}
		<-time.After(10 * time.Millisecond)
	}
}

// unkeyed does an order without a log: the worker saves its progress after each step, and checks
// a step with an unknown outcome.
func (w *worker) unkeyed(ctx context.Context, o *order) error {
	path := filepath.Join(w.keep, strconv.Itoa(o.N))
	if text, err := os.ReadFile(path); err == nil {
		if err := json.Unmarshal(text, o); err != nil {
			return err
		}
	}
	for _, s := range steps {
		if o.Done[s.name] {
			continue
		}
		err := s.do(ctx, w, o)
		if errors.Is(err, lending.ErrMayHaveHappened) && s.seen != nil {
			if seen, looked := s.seen(ctx, w, o); looked == nil && seen {
				err = nil
			}
		}
		o.Done[s.name] = err == nil
		if s.name == "withdraw" && lending.OutcomeOf(err) == lending.OutcomeRejected {
			return fmt.Errorf("%w: %w", errDrawnUp, err)
		}
		if s.name == "confirm" && lending.OutcomeOf(err) == lending.OutcomeRejected { // confirming needs a new password
			o.Done["withdraw"] = false
		}
		if err := errors.Join(err, o.save(path)); err != nil {
			return fmt.Errorf("%s: %w", o.key(s), err)
		}
	}
	return nil
}

func (o *order) save(path string) error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// asked is the time of the orders.
var asked = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func email(n int) string { return fmt.Sprintf("customer-%d@example.com", n) }

func createCustomer(ctx context.Context, w *worker, o *order) error {
	created, err := w.client.Applications.CreateCustomer(ctx, lending.UserRequest{
		FirstName: "Ada", LastName: "Lovelace", Email: email(o.N), MobileNumber: "4155550100", Password: lending.NewSecret("Analytical-Engine-1"),
	})
	if err == nil {
		o.Customer = created.ID
	}
	return err
}

func customerSeen(ctx context.Context, w *worker, o *order) (bool, error) {
	record, err := w.client.Customers.GetByEmail(ctx, email(o.N))
	if err != nil {
		return false, whyUnknown(err)
	}
	var customer struct{ ID lending.CustomerID }
	err = record.Decode(&customer)
	o.Customer = customer.ID
	return true, err
}

func createApplication(ctx context.Context, w *worker, o *order) error {
	id, err := w.client.Applications.Create(ctx, lending.ApplicationRequest{CustomerID: o.Customer, BusinessName: "Engines", BusinessZip: "94105"}, nil)
	if err == nil {
		o.Application = id
	}
	return err
}

func applicationSeen(ctx context.Context, w *worker, o *order) (bool, error) {
	list, err := w.client.Applications.ListByCustomer(ctx, o.Customer)
	if err != nil || len(list) == 0 {
		return false, err
	}
	var application struct{ ID lending.ApplicationID }
	err = list[0].Decode(&application)
	o.Application = application.ID
	return true, err
}

func addBankingData(ctx context.Context, w *worker, o *order) error {
	_, err := w.client.Applications.AddOrUpdateBankingData(ctx, o.Application, &lending.BankingDataRequest{
		Extra: json.RawMessage(`{"accounts":[{"accountNumber":"1","balance":"1.00","transactions":[{"date":"2026-01-01","description":"","amount":"7500.00"}]}]}`),
	}, nil)
	return err
}

func process(ctx context.Context, w *worker, o *order) error {
	_, err := w.client.Applications.Process(ctx, o.Application)
	return err
}

func offerSeen(ctx context.Context, w *worker, o *order) (bool, error) {
	_, err := w.client.Applications.Offer(ctx, o.Application, nil)
	return err == nil, whyUnknown(err)
}

func findLoan(ctx context.Context, w *worker, o *order) error {
	loans, err := w.client.Loans.ListByCustomer(ctx, o.Customer)
	for _, loan := range loans {
		if loan.ApplicationID == o.Application {
			o.Loan = loan.ID
			return nil
		}
	}
	return errors.Join(err, errors.New("there is no loan yet"))
}

var calculation = lending.CalculationRequest{Amount: "2500.00", Terms: 6}

func calculate(ctx context.Context, w *worker, o *order) error {
	_, err := w.client.Calculation.Invoice(ctx, o.Application, &calculation)
	return err
}

func withdraw(ctx context.Context, w *worker, o *order) error {
	begun, err := w.client.Loans.WithdrawInvoice(ctx, o.Loan, lending.InvoiceWithdrawalRequest{Calculation: calculation})
	if err == nil {
		o.Withdrawal = *begun
	}
	return err
}

func confirm(ctx context.Context, w *worker, o *order) error {
	password, err := ask(ctx, http.MethodGet, w.address+onboarding.PhonePath+o.Loan.String())
	if err != nil {
		return err
	}
	_, err = w.client.Loans.ConfirmInvoiceWithdrawal(ctx, o.Withdrawal, lending.WithdrawInvoiceRequestData{DateUTC: asked, OTP: lending.NewSecret(password)})
	return err
}

func withdrawalSeen(ctx context.Context, w *worker, o *order) (bool, error) {
	page, err := w.client.Loans.Withdrawals(ctx, o.Loan, nil)
	return err == nil && page.TotalCount > 0, err
}

// whyUnknown is what kept a read from telling.
func whyUnknown(err error) error {
	if lending.IsNotFound(err) {
		return nil
	}
	return err
}

// ask reads a page of the trial that is not the service's.
func ask(ctx context.Context, method, address string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, method, address, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	return string(page), err
}
