//go:build !bare

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/ops"
	"github.com/lendingapi/lending-go/webhook"
)

// backend is a demonstration: a partner's backend that has lost responses and set webhooks
// aside. Its client calls the sandbox's own service, so the page of the sandbox shows each
// request.
type backend struct {
	service *lendingtest.Service
	client  *lending.Client
	log     *idempotency.Log
	inbox   *webhook.MemoryInbox
}

// The demonstration is faster than a real backend: a check decides about the lost application
// after checkEvery, and the lost withdrawal needs a person after maxLateness.
const checkEvery, maxLateness = 15 * time.Second, 30 * time.Second

// operated returns the ops page of a new demonstration, which works until ctx ends.
func operated(ctx context.Context, service *lendingtest.Service) (http.Handler, error) {
	log, err := idempotency.NewLog(store.NewMemory(), &idempotency.Options{MaxLateness: maxLateness})
	if err != nil {
		return nil, err
	}
	client, err := lending.New("http://127.0.0.1", lending.WithIdempotency(log),
		lending.WithHTTPClient(&http.Client{Transport: service.Transport()}),
		lending.WithCredentials(lending.Credentials{
			Username: lendingtest.Username, Password: lending.NewSecret(lendingtest.Password),
			TrustedDeviceToken: lending.NewSecret(lendingtest.TrustedDeviceToken),
		}))
	if err != nil {
		return nil, err
	}
	b := &backend{service, client, log, webhook.NewMemoryInbox()}
	err = errors.Join(b.loseWithdrawal(ctx), b.loseDocument(ctx), b.loseApplication(ctx), b.setAside(ctx))
	if err != nil {
		client.Close()
		return nil, fmt.Errorf("the demonstration of -ops: %w", err)
	}
	go b.check(ctx)
	return ops.Handler(ops.Options{
		Log:     log,
		Inboxes: map[string]webhook.DeadLetters{"webhooks": b.inbox},
		Session: client.Session(),
		Who:     func(*http.Request) (name string, mayAct bool) { return "the visitor", true },
		Show:    func(*http.Request) bool { return true },
	}), nil
}

// check checks mutations in doubt. Mutations that no read can decide wait for a person.
func (b *backend) check(ctx context.Context) {
	defer b.client.Close()
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(checkEvery):
			_, _ = b.log.Check(ctx, b.client) // the page shows the mutations that are left
		}
	}
}

// lose makes a call with the key and loses its response.
func (b *backend) lose(ctx context.Context, key, route string, call func(ctx context.Context) error) error {
	b.service.Fail(route, lendingtest.Fault{ResetAfter: true})
	if err := call(lending.WithIdempotencyKey(ctx, key)); !errors.Is(err, lending.ErrMayHaveHappened) {
		return fmt.Errorf("%s: the response was not lost: %w", key, err)
	}
	return nil
}

// loseWithdrawal loses the response to a confirmation. A second withdrawal from the same loan
// then hides whether the first was executed, so a person has to decide.
func (b *backend) loseWithdrawal(ctx context.Context) error {
	row := b.service.AddLoan(lendingtest.Loan{Amount: 40_000_00, AvailableBalance: 40_000_00, IsEnabled: true})
	application, err := lending.ParseApplicationID(row.ApplicationID)
	if err != nil {
		return err
	}
	loan, err := lending.ParseLoanID(row.ID)
	if err != nil {
		return err
	}
	withdraw := func(keyed context.Context) error {
		calculation := lending.CalculationRequest{Amount: "2500.00", Terms: 6}
		if _, err := b.client.Calculation.Invoice(ctx, application, &calculation); err != nil {
			return err
		}
		begun, err := b.client.Loans.WithdrawInvoice(ctx, loan, lending.InvoiceWithdrawalRequest{Calculation: calculation})
		if err != nil {
			return err
		}
		_, err = b.client.Loans.ConfirmInvoiceWithdrawal(keyed, *begun,
			lending.WithdrawInvoiceRequestData{DateUTC: time.Now(), OTP: lending.NewSecret(b.service.OTP(row.ID))})
		return err
	}
	err = b.lose(ctx, "order-41/confirm", "POST /api/Loan/confirm-withdrawal-invoice/{loanId}", withdraw)
	return errors.Join(err, withdraw(ctx))
}

// loseDocument loses the response to an upload, which no read can check.
func (b *backend) loseDocument(ctx context.Context) error {
	row := b.service.AddApplication(lendingtest.Application{
		Offer: &lendingtest.Offer{Amount: 10_000_00, ExpiresUTC: lendingtest.Timestamp{Time: time.Now().AddDate(1, 0, 0)}},
	})
	application, err := lending.ParseApplicationID(row.ID)
	if err != nil {
		return err
	}
	return b.lose(ctx, "order-42/document", "POST /api/ApplicationApproval/submit-document/{applicationId}", func(ctx context.Context) error {
		file := lending.Document{Name: "statement.pdf", Content: strings.NewReader("%PDF-1.7")}
		return b.client.Approval.SubmitDocument(ctx, application, "Other", file)
	})
}

// loseApplication loses the response to a creation, which a check finds.
func (b *backend) loseApplication(ctx context.Context) error {
	row := b.service.AddCustomer(lendingtest.Customer{})
	customer, err := lending.ParseCustomerID(row.ID)
	if err != nil {
		return err
	}
	return b.lose(ctx, "order-43/application", "POST /api/Application/create-application", func(ctx context.Context) error {
		_, err := b.client.Applications.Create(ctx, lending.ApplicationRequest{CustomerID: customer, BusinessName: "Lovelace & Sons"}, nil)
		return err
	})
}

// setAside makes dead letters of three webhooks.
func (b *backend) setAside(ctx context.Context) error {
	for _, letter := range []struct{ body, cause string }{
		{`{"webhookEvent":"WB_Loan_Created","data":{"loanId":"order-41"}}`, "the loan is not in our database yet"},
		{`{"webhookEvent":"WB_Loan_Created","data":{"loanId":"order-44"}}`, "the loan is not in our database yet"},
		{`{"webhookEvent":"WB_Application_Created","data":{}}`, "no function for this event"},
	} {
		event, err := webhook.Parse([]byte(letter.body))
		if err != nil {
			return err
		}
		if err := b.inbox.Put(ctx, event); err != nil {
			return err
		}
		entry, err := b.inbox.Take(ctx)
		if err != nil {
			return err
		}
		if err := b.inbox.DeadLetter(ctx, entry, errors.New(letter.cause)); err != nil {
			return err
		}
	}
	return nil
}
