package idempotency

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/backoff"
	"github.com/lendingapi/lending-go/internal/redact"
)

const (
	readLimit      = time.Minute // bounds a read of an owner
	failuresInARow = 8           // end an audit: the service is down
	mostListed     = 100         // differences in a result
)

// errEnough ends an audit whose caller has ended the loop.
var errEnough = redact.Text(prefix + "the caller has ended the audit")

type audit struct {
	*settings
	AuditOptions

	yield   func(Difference) bool
	isDaily bool
	result  AuditResult
	gone    time.Time // the log knows all keys with a later change
	failed  int       // reads in a row
}

func (s *settings) newAudit(opts AuditOptions) *audit {
	return &audit{settings: s, AuditOptions: opts, result: AuditResult{
		From: opts.From.UTC(), To: opts.To.UTC(), Found: map[DifferenceKind]int{}, NotAuditable: map[string]int{},
	}}
}

// report yields a difference.
func (a *audit) report(d Difference) error {
	if a.result.Found[d.Kind]++; len(a.result.Differences) < mostListed {
		a.result.Differences = append(a.result.Differences, d)
	}
	if !a.yield(d) {
		return errEnough
	}
	return nil
}

// each calls f with each book, and returns the books for which f succeeds. The other owners are unread.
func (a *audit) each(ctx context.Context, books []*book, f func(context.Context, *book) error) (good []*book, err error) {
	for _, b := range books {
		if err = f(ctx, b); err == nil {
			good, a.failed = append(good, b), 0
			continue
		}
		if lending.OutcomeOf(err) != lending.OutcomeRejected && !errors.Is(err, errLags) && !errors.Is(err, errUnsteady) {
			a.failed++
		}
		switch {
		case errors.Is(err, errEnough):
			return nil, err
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case a.failed > failuresInARow:
			return nil, fmt.Errorf("%saudit: %d reads in a row failed: %w", prefix, a.failed, err)
		}
		if err := a.report(Difference{Kind: Unread, Owner: b.kind, ID: b.id, Why: redact.Describe(err)}); err != nil {
			return nil, err
		}
	}
	return good, nil
}

// read reads the lists of an owner.
func (a *audit) read(ctx context.Context, b *book) error {
	ctx, stop := context.WithTimeout(ctx, readLimit)
	defer stop()
	if err := backoff.Sleep(ctx, a.Wait); err != nil {
		return err
	}
	b.at, b.lists, b.loans = time.Now(), nil, nil
	add := func(in reads, records []shownRecord) { b.lists = append(b.lists, shown{in, records}) }
	switch id := uuid.MustParse(b.id); b.kind {
	case customerOwner:
		applications, err := a.Client.Applications.ListByCustomer(ctx, lending.CustomerID(id))
		add(readsApplications, recordsOf(b.id, applications...))
		loans, noLoans := a.Client.Loans.ListByCustomer(ctx, lending.CustomerID(id))
		for _, loan := range loans {
			b.loans = append(b.loans, shownLoan{loan.ID.String(), loan.ApplicationID.String()})
		}
		return cmp.Or(unlessMissing(err), unlessMissing(noLoans))
	case applicationOwner:
		applicants, err := a.Client.Approval.Applicants(ctx, lending.ApplicationID(id))
		add(readsApplicants, recordsOf(b.id, applicants...))
		offer, noOffer := a.Client.Applications.Offer(ctx, lending.ApplicationID(id), nil)
		if noOffer == nil {
			add(readsOffer, recordsOf(b.id, offer))
		}
		if lending.IsNotFound(noOffer) { // tells nothing
			noOffer = nil
		}
		return cmp.Or(unlessMissing(err), noOffer)
	default:
		if !a.gone.IsZero() && b.parent == "" { // the age of the application matters
			loan, err := a.Client.Loans.Get(ctx, lending.LoanID(id))
			if err != nil {
				return err
			}
			b.parent = loan.ApplicationID.String()
		}
		var all []shownRecord
		for withdrawal, err := range a.Client.Loans.AllWithdrawals(ctx, lending.LoanID(id), nil) {
			if unlessMissing(err) != nil {
				return err
			}
			if err == nil {
				all = append(all, recordsOf(b.id, withdrawal)...)
			}
		}
		add(readsWithdrawals, all)
		return nil
	}
}

// unlessMissing returns the error of a list, or nil if the service does not know the owner: the list is empty. A 400
// is no absence here.
func unlessMissing(err error) error {
	if failed, ok := errors.AsType[*lending.Error](err); ok && failed.StatusCode == http.StatusNotFound && lending.IsNotFound(err) {
		return nil
	}
	return err
}

// recordsOf returns the UUIDs of the records of an owner.
func recordsOf[T interface{ Raw() json.RawMessage }](own string, records ...T) (all []shownRecord) {
	for _, record := range records {
		text := strings.Clone(string(record.Raw())) // without the page around it
		isOwn := func(id string) bool { return id == own }
		all = append(all, shownRecord{id: idOf([]byte(text)), ids: slices.DeleteFunc(uuidsIn(text), isOwn)})
	}
	return all
}
