package guarantees_test

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/lendingtest"
)

const signInPage = "<!DOCTYPE html><title>Sign in</title>"

// fail plans a fault for the next call of route, now and then also one for the sign-in.
// cancel ends the context of the call.
func (j *journey) fail(a *actor, route string, cancel context.CancelFunc) (name string) {
	n := 1 + a.random.IntN(30)
	hang := time.Hour
	if j.wire != "memory" && j.actors > 1 {
		hang = 10 * time.Second // in real time, if the call of another actor runs into it, whom nobody cancels
	}
	faults := []struct {
		name  string
		fault lendingtest.Fault
	}{
		{"reset before", lendingtest.Fault{ResetBefore: true}},
		{"reset after", lendingtest.Fault{ResetAfter: true}},
		{"reset after", lendingtest.Fault{ResetAfter: true}},
		{"5xx", lendingtest.Fault{Status: 500 + a.random.IntN(5)}},
		{"5xx though executed", lendingtest.Fault{Status: 500 + a.random.IntN(5), Executes: true}},
		{"5xx that is cut", lendingtest.Fault{Status: http.StatusBadGateway, Executes: true, CutBody: n}},
		{"5xx page", lendingtest.Fault{
			Status: http.StatusBadGateway, Body: []byte(signInPage),
			ContentType: "text/html",
		}},
		{"empty 5xx", lendingtest.Fault{Status: http.StatusServiceUnavailable, Body: []byte{}}},
		{"408 though executed", lendingtest.Fault{Status: http.StatusRequestTimeout, Executes: true}},
		{"429", lendingtest.Fault{Status: http.StatusTooManyRequests, RetryAfter: time.Second}},
		{"429 that is cut", lendingtest.Fault{Status: http.StatusTooManyRequests, CutBody: -1}},
		{"401", lendingtest.Fault{Status: http.StatusUnauthorized, Body: []byte{}}},
		{"400 of a host", lendingtest.Fault{
			Status: http.StatusBadRequest, Body: []byte(`{"errors":{"":["no"]}}`),
			ContentType: "application/problem+json",
		}},
		{"403", lendingtest.Fault{Status: http.StatusForbidden}},
		{"413", lendingtest.Fault{
			Status: http.StatusRequestEntityTooLarge, Body: []byte(signInPage),
			ContentType: "text/html",
		}},
		{"a page", lendingtest.Fault{Status: http.StatusOK, Body: []byte(signInPage), ContentType: "text/html"}},
		{"a page though executed", lendingtest.Fault{
			Status: http.StatusOK, Executes: true, Body: []byte(signInPage),
			ContentType: "application/json",
		}},
		{"redirect", lendingtest.Fault{
			Status: http.StatusFound, Header: http.Header{"Location": {"/login"}},
			Body: []byte{},
		}},
		{"cut answer", lendingtest.Fault{CutBody: n}},
		{"answer without body", lendingtest.Fault{CutBody: -1}},
		{"cancelled", lendingtest.Fault{Reached: cancel, DelayBefore: hang}},
	}
	if j.actors > 1 { // the call of another actor would meet the last, and wait for an hour
		faults = faults[:len(faults)-1]
	}
	chosen := faults[a.random.IntN(len(faults))]
	j.service.Fail(route, chosen.fault)
	name = chosen.name
	if a.random.IntN(8) == 0 {
		signIn := []string{fake.LoginRoute, fake.TwoFactorRoute, fake.RefreshRoute}[a.random.IntN(3)]
		j.service.RevokeTokens()
		j.service.Fail(signIn, []lendingtest.Fault{{ResetAfter: true}, {Status: 503}, {CutBody: n}}[a.random.IntN(3)])
		name += ", and at " + signIn
	}
	return name
}

// transient are the faults after which a read comes back.
var transient = []lendingtest.Fault{
	{ResetBefore: true},
	{ResetAfter: true},
	{Status: http.StatusInternalServerError},
	{Status: http.StatusServiceUnavailable, Body: []byte{}},
	{Status: http.StatusBadGateway, Body: []byte(signInPage), ContentType: "text/html"},
	{Status: http.StatusTooManyRequests, Body: []byte{}},
	{CutBody: 1},
	{CutBody: -1},
}

// read makes a read, perhaps with a fault that it has to survive, and compares what it
// says with the world.
func (j *journey) read(a *actor) error {
	customer := a.seen.Customers[a.random.IntN(len(a.seen.Customers))]
	route, call := j.reads(a, customer)
	fault := lendingtest.Fault{}
	often := 3
	if j.wire != "memory" {
		often = 8 // the wait before it is repeated is real
	}
	if a.random.IntN(often) == 0 {
		fault = transient[a.random.IntN(len(transient))]
		fault.Times = 1 + a.random.IntN(2)
		if j.wire == "memory" && fault.Status == http.StatusTooManyRequests {
			fault.RetryAfter = time.Minute / 2
		}
		j.service.Fail(route, fault)
	}
	got, want, err := call(context.Background())
	if j.actors == 1 {
		j.service.ClearFaults()
	}
	j.note(a, route, fmt.Sprintf("%+v", fault.Status), err)
	j.tally.mu.Lock()
	j.tally.reads++
	j.tally.mu.Unlock()
	switch {
	case err == nil && got != want:
		return fmt.Errorf("%s says %s, and it is %s", route, got, want)
	case signedOut(err):
		_ = j.client.Session().SignIn(context.Background())
	case err != nil && j.actors == 1: // another actor's faults can be too many, or of another kind
		return fmt.Errorf("%s did not come back: %w", route, err)
	}
	return nil
}

// reads chooses a read. What it returns is what the service says, and what it should.
func (j *journey) reads(a *actor, customer customerState) (route string, call func(context.Context) (got, want string,
	err error),
) {
	customerID := lending.CustomerID(uuid.MustParse(customer.id))
	if len(customer.Applications) == 0 || a.random.IntN(4) == 0 {
		return fake.ListRoute, func(ctx context.Context) (string, string, error) {
			list, err := j.client.Applications.ListByCustomer(ctx, customerID)
			return fmt.Sprint(len(list)), fmt.Sprint(len(customer.Applications)), err
		}
	}
	s := customer.Applications[a.random.IntN(len(customer.Applications))]
	if s.Loan != nil && a.random.IntN(2) == 0 {
		return "GET /api/Loan/get-withdrawals/{loanId}", func(ctx context.Context) (string, string, error) {
			count := 0
			for _, err := range j.client.Loans.AllWithdrawals(ctx, s.loanID(),
				&lending.PagedOptions{Take: 1 + a.random.IntN(3)}) {
				if err != nil {
					return "", "", err
				}
				count++
			}
			return fmt.Sprint(count), fmt.Sprint(len(s.Loan.Withdrawn)), nil
		}
	}
	if a.random.IntN(2) == 0 {
		return "GET /api/Communication/get-all-messages/{applicationId}", func(ctx context.Context) (string, string,
			error,
		) {
			list, err := j.client.Communication.Messages(ctx, s.applicationID(), nil)
			return fmt.Sprint(len(list)), fmt.Sprint(len(s.Messages)), err
		}
	}
	return fake.StatusRoute, func(ctx context.Context) (string, string, error) {
		status, err := j.client.Applications.Status(ctx, s.applicationID())
		return status, s.Status, err
	}
}
