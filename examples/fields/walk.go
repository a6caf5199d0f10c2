package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/lendingapi/lending-go"
)

// whose names the customer and the partner whose records are read.
type whose struct {
	customer lending.CustomerID
	partner  lending.PartnerID
}

// walk learns from all reads of a service for a customer and a partner.
func (l *learner) walk(ctx context.Context, baseURL string, from whose, signIn lending.Option) error {
	client, err := lending.New(baseURL, signIn, lending.WithObserver(l.observe, nil))
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	reads{client, stop}.all(ctx, from)
	return context.Cause(ctx)
}

// observe learns from the response to each call of a client.
func (l *learner) observe(ctx context.Context, _ lending.Call) (context.Context, func(lending.Call)) {
	var answer lending.Response
	return lending.CaptureResponse(ctx, &answer), func(call lending.Call) {
		if route := call.Method + " " + call.Route; answer.StatusCode/100 == 2 {
			l.see(route, answer.StatusCode, answer.Body)
		} else if answer.StatusCode != 0 {
			fmt.Fprintf(l.out, "  %s: %d\n", route, answer.StatusCode)
		}
	}
}

// reads calls the reads of a service.
type reads struct {
	*lending.Client
	stop context.CancelCauseFunc
}

// try ignores errors of the service, so that the next read follows.
func (r reads) try(_ any, err error) {
	var failed *lending.Error
	if err != nil && (!errors.As(err, &failed) || failed.StatusCode == 0) {
		r.stop(err)
	}
}

func (r reads) all(ctx context.Context, from whose) {
	if !from.partner.IsZero() {
		r.try(r.Applications.ListByPartner(ctx, from.partner, &lending.ListOptions{Take: 200}))
		r.try(r.Webhooks.Subscription(ctx, lending.ForPartner(from.partner)))
		r.try(r.Webhooks.RegisteredEvents(ctx, lending.ForPartner(from.partner)))
		r.try(r.Webhooks.AllSubscriptions(ctx))
	}
	var guess struct { // these names are not published; if they differ, the program reads less
		ID    lending.ApplicationID
		Email string
	}
	customer, err := r.Customers.GetByID(ctx, from.customer)
	if r.try(nil, err); err == nil && customer.Decode(&guess) == nil && guess.Email != "" {
		r.try(r.Customers.GetByEmail(ctx, guess.Email))
	}
	applications, err := r.Applications.ListByCustomer(ctx, from.customer)
	r.try(nil, err)
	for _, application := range applications {
		if application.Decode(&guess) == nil && !guess.ID.IsZero() {
			r.application(ctx, guess.ID)
		}
	}
	loans, err := r.Loans.ListByCustomer(ctx, from.customer)
	r.try(nil, err)
	for _, loan := range loans {
		r.loan(ctx, loan.ID)
	}
}

func (r reads) application(ctx context.Context, id lending.ApplicationID) {
	r.try(r.Applications.Get(ctx, id))
	r.try(r.Applications.Status(ctx, id))
	r.try(r.Applications.Offer(ctx, id, nil))
	r.try(r.Approval.Contracts(ctx, id))
	r.try(r.Approval.ContractDetails(ctx, id))
	r.try(r.Approval.Applicants(ctx, id))
	r.try(r.Approval.BankAccounts(ctx, id))
	r.try(r.Approval.PrimaryBankAccount(ctx, id))
	r.try(r.Approval.RequiredDocuments(ctx, id))
	r.try(r.Communication.Messages(ctx, id, nil))
}

func (r reads) loan(ctx context.Context, id lending.LoanID) {
	r.try(r.Loans.Get(ctx, id))
	r.try(r.Loans.Transactions(ctx, id, nil))
	r.try(r.Loans.TransactionsPaged(ctx, id, nil))
	r.try(r.Loans.Withdrawals(ctx, id, nil))
	r.try(r.Loans.ContractDocuments(ctx, id))
	r.try(r.Loans.TotalBalance(ctx, id))
	r.try(r.Loans.RepaymentBalances(ctx, id))
	r.try(r.Loans.IsEnabled(ctx, id))
	r.try(r.Loans.IsClosed(ctx, id))
	r.try(r.Loans.EarlyRepayment(ctx, id))
}
