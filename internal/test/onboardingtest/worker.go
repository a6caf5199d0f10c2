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
	"sync"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/internal/test/onboarding"
	"github.com/lendingapi/lending-go/lendingtest"
)

// order is the state of an order. A worker without a log keeps the order in a file.
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
	key  func(context.Context) context.Context                        // adds options to the key; nil for nothing
}

// worker takes orders from nothing to a confirmed withdrawal.
type worker struct {
	client  *lending.Client
	address string
	keep    string // the folder of the orders, without a log
}

// steps are the steps of an order, with a log and without.
var steps = []step{
	{"create-customer", createCustomer, customerSeen, nil},
	{"create-application", createApplication, applicationSeen, nil},
	{"banking-data", addBankingData, nil, nil},
	{"process", process, offerSeen, nil},
	{"find-loan", findLoan, nil, nil}, // a read
	{"calculate", calculate, nil, nil},
	{"withdraw", withdraw, nil, idempotency.SafeToRepeat},
	{"confirm", confirm, withdrawalSeen, nil},
}

// keyed does an order with a log. Each try starts at the first step.
func (w *worker) keyed(ctx context.Context, o *order) error {
	for _, s := range steps {
		keyed := ctx
		switch s.name {
		case "find-loan":
		case "process": // the log asks a person; this caller knows that processing leads to an offer
			keyed = idempotency.WithCheck(lending.WithIdempotencyKey(ctx, o.key(s)), func(ctx context.Context) (idempotency.Verdict, error) {
				seen, err := s.seen(ctx, w, o)
				if seen {
					return idempotency.Happened(nil), err
				}
				return idempotency.NotHappened(), err
			})
		default:
			keyed = lending.WithIdempotencyKey(ctx, o.key(s))
			if s.key != nil {
				keyed = s.key(keyed)
			}
		}
		if err := s.do(keyed, w, o); err != nil && lending.OutcomeOf(err) != lending.OutcomeDone {
			return fmt.Errorf("%s: %w", o.key(s), err)
		}
	}
	return nil
}

func (o *order) key(s step) string { return "order-" + strconv.Itoa(o.N) + "/" + s.name }

// Unkeyed does the order of customer n once, without a log, for a worker that keeps its progress
// in a folder.
func Unkeyed(ctx context.Context, client *lending.Client, address string, n int, keep string) error {
	return (&worker{client, address, keep}).unkeyed(ctx, &order{N: n, Done: map[string]bool{}})
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
	password, err := w.phone(ctx, o.Loan)
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

// whyUnknown returns the reason for which a read could not decide.
func whyUnknown(err error) error {
	if lending.IsNotFound(err) {
		return nil
	}
	return err
}

// phone reads the one-time password.
func (w *worker) phone(ctx context.Context, loan lending.LoanID) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.address+onboarding.PhonePath+loan.String(), nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	password, err := io.ReadAll(response.Body)
	return string(password), err
}

// work does all orders, some at a time, and repeats them until they are done.
func work(ctx context.Context, address string, orders int, keep string, log *idempotency.Log) error {
	options := []lending.Option{lending.WithCredentials(lending.Credentials{
		Username: lendingtest.AdministratorUsername, Password: lending.NewSecret(lendingtest.AdministratorPassword),
	})}
	if log != nil {
		options = append(options, lending.WithIdempotency(log))
	}
	client, err := lending.New(address, options...)
	if err != nil {
		return err
	}
	defer client.Close()
	w := &worker{client, address, keep}
	take := w.unkeyed
	if log != nil {
		take = w.keyed
	}
	next := make(chan int)
	failed := make(chan error, concurrency)
	var group sync.WaitGroup
	for range concurrency {
		group.Go(func() {
			for n := range next {
				if err := persist(ctx, n, take); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	for n := range orders {
		select {
		case next <- n:
		case err := <-failed:
			return err
		}
	}
	close(next)
	group.Wait()
	close(failed)
	return <-failed
}

// persist repeats an order until the order is done or waits for a person.
func persist(ctx context.Context, n int, take func(context.Context, *order) error) error {
	for {
		limited, cancel := context.WithTimeout(ctx, patience)
		err := take(limited, &order{N: n, Done: map[string]bool{}})
		cancel()
		todo := lending.NextOf(err)
		if !todo.Retry || todo.Person {
			return err
		}
		<-time.After(max(todo.After, 10*time.Millisecond))
	}
}
