package onboardingtest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/examples/order"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/internal/test/onboarding"
	"github.com/lendingapi/lending-go/lendingtest"
)

// audit is an audit of the log after the end of a trial.
type audit struct {
	found  []idempotency.Difference
	result *idempotency.AuditResult
}

// auditOf audits the log when MaxLateness is over.
func auditOf(ctx context.Context, address, location string, how How) (a audit, err error) {
	entries, err := how.Open(location)
	if err != nil {
		return a, err
	}
	opts := &idempotency.Options{MaxLateness: held + *lag + margin}
	if how.Moves {
		moved := strings.Replace(address, "127.0.0.1", "localhost", 1)
		opts.Formerly = []idempotency.Account{{BaseURL: moved, Username: lendingtest.AdministratorUsername}}
	}
	log, err := idempotency.NewLog(entries, opts)
	if err != nil {
		return a, err
	}
	client, err := lending.New(address, lending.WithCredentials(lending.Credentials{
		Username: lendingtest.AdministratorUsername, Password: lending.NewSecret(lendingtest.AdministratorPassword),
	}))
	if err != nil {
		return a, err
	}
	defer client.Close()
	<-time.After(opts.MaxLateness)
	period := idempotency.AuditOptions{From: time.Now().Add(-24 * time.Hour), To: time.Now().Add(time.Hour), Client: client}
	for d, err := range log.Audit(ctx, period) {
		if err != nil {
			return a, err
		}
		a.found = append(a.found, d)
	}
	if a.result, err = log.Audited(ctx); err != nil {
		return a, err
	}
	return a, entries.Close()
}

// agrees compares the audit with the counts of the service: two implementations of the same question. Both count
// applications, applicants and withdrawals, which a read lists.
func (a audit) agrees(t *testing.T, counted onboarding.Result) {
	t.Helper()
	wrong, differences := 0, 0
	for _, route := range []string{onboarding.CreateApplication, onboarding.Applicant, onboarding.Confirm} {
		_, beyond, missing := counted.Of(route)
		wrong += beyond + missing
	}
	for _, d := range a.found {
		switch d.Kind {
		case idempotency.Missing, idempotency.Unexplained:
			differences += d.Count
		case idempotency.Shared:
		case idempotency.Open, idempotency.Unread:
			t.Errorf("the audit is not complete: %+v", d)
		}
	}
	t.Logf("the audit of %d keys of %d owners found %d differences, not auditable: %v", a.result.Keys, a.result.Owners,
		differences, a.result.NotAuditable)
	if wrong != differences {
		t.Errorf("the service counts %d differences, the audit %d: %+v", wrong, differences, a.found)
	}
	if all, _ := order.Orders(*customers); a.result.Owners < 3*len(all) {
		t.Errorf("%d owners: not the customer, the application and the loan of each order", a.result.Owners)
	}
}
