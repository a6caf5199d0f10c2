package probe

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/assumption"
)

// The reads whose missing records look like an unknown path are the fact of missingAndUnknown.
const (
	missingAndUnknown = "missing and unknown"
	emptyNotFound     = "404 " + assumption.Empty
)

func (p *prober) look(ctx context.Context) {
	p.t.Logf("Reading each kind of record with a random identifier.")
	unknown, ambiguous := "", []string{}
	p.ask(ctx, missingAndUnknown, func(r lending.Response, err error) string { unknown = form(r, err); return "" },
		read(p.client.Do, lending.RawRequest{Effect: lending.Read, Method: "GET", Path: "/api/Probe/get-nothing"}))
	c, id := p.client, uuid.New()
	application, customer, loan := lending.ApplicationID(id), lending.CustomerID(id), lending.LoanID(id)
	for name, call := range map[string]func(context.Context) error{
		"Applications.Get get-application":                      read(c.Applications.Get, application),
		"Applications.Status application-status":                read(c.Applications.Status, application),
		"Applications.Offer application-offer":                  readWith(c.Applications.Offer, application),
		"Applications.ListByCustomer get-customer-applications": read(c.Applications.ListByCustomer, customer),
		"Approval.Applicants get-all-applicants":                read(c.Approval.Applicants, application),
		"Approval.PrimaryBankAccount get-primary-bank-account":  read(c.Approval.PrimaryBankAccount, application),
		"Communication.Messages get-all-messages":               readWith(c.Communication.Messages, application),
		"Customers.GetByID get-customer-by-id":                  read(c.Customers.GetByID, customer),
		"Customers.GetByEmail get-customer-by-email":            read(c.Customers.GetByEmail, "probe-"+id.String()[:8]+"@example.com"),
		"Loans.Get get-loan":                                    read(c.Loans.Get, loan),
		"Loans.ListByCustomer get-customer-loans":               read(c.Loans.ListByCustomer, customer),
		"Loans.Withdrawals get-withdrawals":                     readWith(c.Loans.Withdrawals, loan),
		"Loans.TotalBalance get-total-balance":                  read(c.Loans.TotalBalance, loan),
		"Webhooks.Subscription get-subscription":                read(c.Webhooks.Subscription, lending.ForCustomer(customer)),
	} {
		method, action, _ := strings.Cut(name, " ")
		p.ask(ctx, assumption.Absence+": "+action, func(r lending.Response, err error) string {
			if missing := form(r, err); missing != emptyNotFound || unknown != emptyNotFound {
				return missing
			}
			ambiguous = append(ambiguous, method)
			return emptyNotFound
		}, call)
	}
	slices.Sort(ambiguous)
	if unknown != "" {
		p.fact(missingAndUnknown, cmp.Or(strings.Join(ambiguous, ", "), "told apart"))
	}
	p.t.Logf("Reading a loan with an identifier that is no UUID.")
	p.ask(ctx, assumption.MalformedIdentifier, form, read(c.Do, lending.RawRequest{
		Effect: lending.Read, Method: "GET", Path: "/api/Loan/get-loan/{loanId}", Args: []string{"7"},
	}))
	p.t.Logf("Reading the records of the partner, of customers and of loans.")
	customers := []lending.CustomerID{p.o.Customer}
	if !p.o.Partner.IsZero() {
		customers = append(customers, p.partner(ctx)...)
	}
	loans := []lending.LoanID{p.o.Loan}
	for _, customer := range some(customers) {
		loans = append(loans, p.readCustomer(ctx, customer)...)
	}
	for i, loan := range some(loans) {
		p.loan(ctx, loan, i == 0)
	}
	if len(some(loans)) == 0 {
		p.unseen(assumption.Totals, "no loan to read")
		p.unseen(assumption.Descending, "no loan to read")
	}
}

// some returns the first different identifiers: as many as teach the names of fields.
func some[T interface {
	comparable
	IsZero() bool
}](ids []T) (first []T) {
	for _, id := range ids {
		if len(first) < enough && !id.IsZero() && !slices.Contains(first, id) {
			first = append(first, id)
		}
	}
	return first
}

func read[A, R any](call func(context.Context, A) (R, error), arg A) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := call(ctx, arg)
		return err
	}
}

func readWith[A, O, R any](call func(context.Context, A, *O) (R, error), arg A) func(context.Context) error {
	return read(func(ctx context.Context, arg A) (R, error) { return call(ctx, arg, nil) }, arg)
}

// ask calls the service, and records what the response tells.
func (p *prober) ask(ctx context.Context, name string, tell func(lending.Response, error) string, call func(context.Context) error) {
	var r lending.Response
	err := call(lending.CaptureResponse(as(ctx, quiet), &r))
	if r.StatusCode == 0 {
		p.unseen(name, reason(err))
		return
	}
	p.fact(name, tell(r, err))
}

// try records why a read failed.
func (p *prober) try(_ any, err error) {
	if err != nil {
		p.unseen(assumption.Fields, reason(err))
	}
}

// named has the fields that lead to other records.
type named struct {
	ID         lending.ApplicationID
	CustomerID lending.CustomerID
	Email      string
}

// partner reads the lists of the partner, and returns the customers of the first applications.
func (p *prober) partner(ctx context.Context) (customers []lending.CustomerID) {
	list := func(skip, take int) ([]string, error) {
		return raws(p.client.Applications.ListByPartner(ctx, p.o.Partner, &lending.ListOptions{Skip: skip, Take: take}))
	}
	p.pages("get-partner-applications", list)
	p.cap(ctx, "get-partner-applications", "/api/Application/get-partner-applications/{partnerId}", p.o.Partner.String())
	records, err := list(0, 20)
	p.try(nil, err)
	for _, record := range records {
		var found named
		if json.Unmarshal([]byte(record), &found) == nil {
			customers = append(customers, found.CustomerID)
		}
	}
	p.try(p.client.Webhooks.RegisteredEvents(ctx, lending.ForPartner(p.o.Partner)))
	p.try(p.client.Webhooks.Subscription(ctx, lending.ForPartner(p.o.Partner)))
	return customers
}

// readCustomer reads a customer with the first applications, and returns the loans.
func (p *prober) readCustomer(ctx context.Context, id lending.CustomerID) (ids []lending.LoanID) {
	var found named
	customer, err := p.client.Customers.GetByID(ctx, id)
	if p.try(nil, err); err == nil && customer.Decode(&found) == nil && found.Email != "" {
		p.try(p.client.Customers.GetByEmail(ctx, found.Email))
	}
	applications, err := p.client.Applications.ListByCustomer(ctx, id)
	p.try(nil, err)
	for _, application := range applications[:min(enough, len(applications))] {
		if application.Decode(&found) == nil && !found.ID.IsZero() {
			p.application(ctx, found.ID)
		}
	}
	loans, err := p.client.Loans.ListByCustomer(ctx, id)
	p.try(nil, err)
	for _, loan := range loans {
		ids = append(ids, loan.ID)
	}
	return ids
}

func (p *prober) application(ctx context.Context, id lending.ApplicationID) {
	c := p.client
	p.try(c.Applications.Get(ctx, id))
	p.try(c.Applications.Status(ctx, id))
	p.try(c.Applications.Offer(ctx, id, nil))
	p.try(c.Approval.Contracts(ctx, id))
	p.try(c.Approval.ContractDetails(ctx, id))
	p.try(c.Approval.Applicants(ctx, id))
	p.try(c.Approval.BankAccounts(ctx, id))
	p.try(c.Approval.PrimaryBankAccount(ctx, id))
	p.try(c.Approval.RequiredDocuments(ctx, id))
	p.try(c.Communication.Messages(ctx, id, nil))
}

// loan reads a loan, and measures its lists.
func (p *prober) loan(ctx context.Context, id lending.LoanID, lists bool) {
	c := p.client
	p.try(c.Loans.Get(ctx, id))
	p.try(c.Loans.ContractDocuments(ctx, id))
	p.try(c.Loans.TotalBalance(ctx, id))
	p.try(c.Loans.RepaymentBalances(ctx, id))
	p.try(c.Loans.IsEnabled(ctx, id))
	p.try(c.Loans.IsClosed(ctx, id))
	p.try(c.Loans.EarlyRepayment(ctx, id))
	if !lists {
		return
	}
	p.pages("get-transactions", func(skip, take int) ([]string, error) {
		return raws(c.Loans.Transactions(ctx, id, &lending.ListOptions{Skip: skip, Take: take}))
	})
	p.pages("get-withdrawals", func(skip, take int) ([]string, error) {
		page, err := c.Loans.Withdrawals(ctx, id, &lending.PagedOptions{Skip: skip, Take: take})
		if err != nil {
			return nil, err
		}
		return raws(page.Data, nil)
	})
	p.cap(ctx, "get-transactions", "/api/Loan/get-transactions/{loanId}", id.String())
	p.totals(ctx, id)
}

// raws returns the records of a list as received.
func raws[R interface{ Raw() json.RawMessage }](records []R, err error) (list []string, _ error) {
	for _, record := range records {
		list = append(list, string(record.Raw()))
	}
	return list, err
}

// pages compares one page of four records with two pages of two.
func (p *prober) pages(name string, list func(skip, take int) ([]string, error)) {
	four, err1 := list(0, 4)
	first, err2 := list(0, 2)
	second, err3 := list(2, 2)
	if err := errors.Join(err1, err2, err3); err != nil {
		p.unseen(assumption.Pages, reason(err))
		return
	}
	if len(four) < 4 {
		p.unseen(assumption.Pages, "no list has four records")
		return
	}
	same := slices.Equal(four, slices.Concat(first, second))
	p.fact(assumption.Pages+": "+name, either(same, assumption.SameOrder, assumption.AnotherOrder))
}

// cap asks for 1,000 records, which the client itself never does.
func (p *prober) cap(ctx context.Context, name, path, id string) {
	ask := func(skip int) (list []json.RawMessage) {
		record, err := p.client.Do(ctx, lending.RawRequest{
			Effect: lending.Read, Method: "GET", Path: path, Args: []string{id},
			Query: map[string][]string{"skip": {fmt.Sprint(skip)}, "take": {"1000"}},
		})
		if err != nil || record.Decode(&list) != nil {
			p.unseen(assumption.TakeCap, "a page of 1,000 records was refused")
		}
		return list
	}
	switch first := ask(0); {
	case len(first) > 200:
		p.fact(assumption.TakeCap+": "+name, "none up to 201 records")
	case len(first) > 0 && len(ask(len(first))) > 0:
		p.fact(assumption.TakeCap+": "+name, fmt.Sprint(len(first)))
	default:
		p.unseen(assumption.TakeCap, "no list has more than 200 records")
	}
}

func (p *prober) totals(ctx context.Context, id lending.LoanID) {
	var all []string
	for record, err := range p.client.Loans.AllTransactionsPaged(ctx, id, nil) {
		if err != nil {
			p.unseen(assumption.Totals, reason(err))
			return
		}
		all = append(all, string(record.Raw()))
	}
	page, err1 := p.client.Loans.TransactionsPaged(ctx, id, &lending.PagedOptions{Skip: 1, Take: 1})
	down, err2 := p.client.Loans.TransactionsPaged(ctx, id, &lending.PagedOptions{Take: 1, Descending: true})
	if err1 != nil || err2 != nil || len(all) < 2 || len(down.Data) == 0 {
		p.unseen(assumption.Totals, "the loan has fewer than two transactions")
		p.unseen(assumption.Descending, "the loan has fewer than two transactions")
		return
	}
	const list = ": get-transactions-paged"
	p.fact(assumption.Totals+list, either(page.TotalCount == len(all), assumption.WholeList, assumption.AnotherNumber))
	order := map[string]string{all[0]: assumption.Ignored, all[len(all)-1]: assumption.Reversed}[string(down.Data[0].Raw())]
	p.fact(assumption.Descending+list, cmp.Or(order, assumption.AnotherOrder))
}

// contains reports whether the raw JSON of a record contains a text of the probe's own.
func contains[T ~string | ~[]byte](raw T, text string) bool {
	return strings.Contains(strings.ToLower(string(raw)), strings.ToLower(text))
}
