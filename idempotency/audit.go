package idempotency

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/backoff"
	"github.com/lendingapi/lending-go/internal/redact"
)

const (
	ownersAtOnce   = 1000 // an audit reads the log again for each batch of owners
	openAfter      = 24 * time.Hour
	auditEvery     = 24 * time.Hour
	auditWait      = 100 * time.Millisecond // before the reads of an owner, in a daily audit
	auditOverlap   = time.Hour              // of two daily audits: an age lacks the time of each save
	readLimit      = time.Minute            // bounds the reads of an owner
	mostRecords    = 20_000                 // bounds the withdrawals of a loan
	failuresInARow = 8                      // end an audit: the service is down
	mostListed     = 100                    // differences in a result
	hasForgotten   = "owners of which the log has forgotten a key"
)

// The end of an audit whose caller has ended the loop, and the reasons why an owner is [Unread], beside the errors of
// its reads.
const (
	errEnough   = redact.Text(prefix + "the caller has ended the audit")
	errLags     = redact.Text("the reads do not show the last mutations yet; audit this owner again after MaxLateness")
	errUnsteady = redact.Text("two reads in a row differ; audit this owner again")
	errTooMany  = redact.Text("the loan has more than 20,000 withdrawals")
)

// AuditOptions are the options of [Log.Audit]. All are required.
type AuditOptions struct {
	// From and To choose the owners: the customers, applications and loans in the requests of the keys
	// with a change in their history that is not before From, and before To.
	From, To time.Time
	Client   *lending.Client // makes the reads
}

type audit struct {
	*settings
	AuditOptions

	yield  func(Difference) bool
	wait   time.Duration // before the reads of an owner; 0 by hand
	result AuditResult
	gone   time.Time // the log knows all keys with a later change
	failed int       // reads in a row
}

// Audit compares the log with the service, and yields the differences. It reads the lists of the owners in
// the period, and judges them by all keys of these owners: the applications and loans of a customer, the
// applicants and the offer of an application, the withdrawals of a loan. A difference is in two reads. If
// the reads of an owner fail, end early, or do not show a change within MaxLateness yet, the owner is [Unread].
// An error ends the audit.
//
// The log knows only its own keys: a record made without a key, or before the log, is [Unexplained]. If the
// log has forgotten keys ([Log.Forget], [Log.Erase]), this is so only for owners younger than those keys. The
// others are not auditable, nor are mutations without a read.
//
// Audit reads the whole log once, and again for each 1,000 owners. It writes only its result, which [Log.Audited]
// returns, and only if it runs to its end.
func (l *Log) Audit(ctx context.Context, opts AuditOptions) iter.Seq2[Difference, error] {
	return func(yield func(Difference, error) bool) {
		a := audit{settings: l.settings(), AuditOptions: opts, yield: func(d Difference) bool { return yield(d, nil) }}
		if err := a.run(ctx); err != nil && !errors.Is(err, errEnough) {
			yield(Difference{}, err)
		}
	}
}

// Audited returns the result of the last audit in any replica, or nil before the first. After an audit by hand see
// [AuditResult].Daily.
func (l *Log) Audited(ctx context.Context) (*AuditResult, error) {
	saved, err := l.settings().audits.read(ctx)
	return saved.Audit, storeError(err)
}

// AuditDaily makes a [Log.Audit] once a day, of the time since the last daily audit, and returns the wait before
// the next call. Call AuditDaily in a loop of its own, in any number of replicas: a single replica makes the audit.
// If that replica is killed, the audit of the next day includes the period. AuditDaily reads at most 10 owners a
// second. [Log.Audited] returns the result. A log with several accounts needs [Log.Audit] with each client instead.
func (l *Log) AuditDaily(ctx context.Context, client *lending.Client) (next time.Duration, err error) {
	s, now := l.settings(), time.Now()
	a := audit{settings: s, wait: auditWait, yield: func(Difference) bool { return true }}
	a.Client, a.To = client, now.Add(-s.MaxLateness) // reads show the changes before
	err = s.audits.change(ctx, func(i *instructions) {
		i.Daily = cmp.Or(i.Daily, &daily{Turn: auditEvery, Audited: auditEvery + s.MaxLateness})
		a.From = now.Add(-i.Daily.Audited - auditOverlap)
		if next = max(0, auditEvery-i.Daily.Turn); next == 0 {
			i.Daily.Turn = 0
		}
	})
	if err != nil || next > 0 {
		return next, storeError(err)
	}
	err = a.run(ctx)
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), rememberLimit)
	defer stop()
	failed := s.audits.change(ctx, func(i *instructions) {
		switch lasted := time.Since(now); {
		case err == nil:
			next, i.Daily = auditEvery, &daily{Turn: lasted, Audited: s.MaxLateness + lasted}
		case i.Daily != nil:
			i.Daily.Turn = auditEvery
		}
	})
	return next, cmp.Or(err, storeError(failed))
}

// run makes the audit, and saves its result.
func (a *audit) run(ctx context.Context) error {
	var c arguments
	c.that(a.Client != nil, "Client", lending.CodeRequired, "must not be nil")
	c.that(!a.From.IsZero() && a.From.Before(a.To), "From", lending.CodeRange, "must be before To")
	if err := c.err(); err != nil {
		return err
	}
	if !a.serves(a.Client.Account()) {
		return argumentError("Client", lending.CodeConflict, "must be of the account of the log: "+oneAccount)
	}
	a.result = AuditResult{From: a.From.UTC(), To: a.To.UTC(), Found: map[DifferenceKind]int{}, NotAuditable: map[string]int{}}
	owners, err := a.choose(ctx)
	for err == nil && len(owners) > 0 {
		owners, err = a.compare(ctx, owners)
	}
	if err != nil {
		return err
	}
	a.result.Ended = time.Now().UTC()
	return storeError(a.audits.change(ctx, func(i *instructions) {
		kept := i.Audit
		if kept != nil {
			kept = cmp.Or(kept.Daily, kept)
		}
		if a.wait > 0 || i.Daily == nil || kept == nil || !a.From.After(kept.From) && !a.To.Before(kept.To) {
			kept = nil
		}
		a.result.Daily, i.Audit = kept, &a.result
	}))
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

// scan calls f with the entries of the account of the client, and with an error for unreadable entries.
func (a *audit) scan(ctx context.Context, f func(*store.Entry, *entryData, error) error) error {
	for entry, err := range store.All(ctx, a.store, store.Filter{Prefix: a.stored(""), States: allStates, Limit: pageLimit}) {
		if err != nil {
			return storeError(err)
		}
		entry.Key = strings.TrimPrefix(entry.Key, a.stored(""))
		d, unread := readData(entry.Data)
		owns, err := a.owns(ctx, a.Client.Account(), d.Request.Account)
		if err != nil {
			return storeError(err)
		}
		if unread != nil || owns {
			if err := f(&entry, &d, unread); err != nil {
				return err
			}
		}
	}
	now, err := a.operator.recent(ctx) // after the entries, some of which may just have been forgotten
	if err == nil && now.Forgot {
		if at := now.at.Add(-now.Gone); at.After(a.gone) {
			a.gone = at
		}
	}
	return storeError(err)
}

// choose returns the owners of the period, counts its keys, and reports the keys that are open or unreadable.
func (a *audit) choose(ctx context.Context) ([]string, error) {
	chosen := map[string]bool{}
	err := a.scan(ctx, func(entry *store.Entry, d *entryData, unread error) error {
		at, row := changedAt(entry), rowOf(d.Request.Route)
		if (unread != nil || d.hasUnknown(entry.State)) && at.After(a.gone) {
			a.gone = at
		}
		if unread != nil {
			return a.report(Difference{Kind: Unread, Keys: []string{entry.Key}, Why: unread.Error()})
		}
		if d.changedIn(entry, a.From, a.To) {
			a.result.Keys++
			if entry.State != store.Free && (!row.adds || row.isOne) {
				a.result.NotAuditable[d.Request.Route]++
			}
			for _, o := range d.Request.IDs.owners() {
				chosen[o] = true
			}
		}
		status := a.status(entry)
		if !isInDoubt(entry.State) || status.Age <= openAfter {
			return nil
		}
		open := Difference{Kind: Open, Keys: []string{entry.Key}, Why: status.Why}
		for _, o := range d.Request.IDs.owners() {
			open.Owner, open.ID, _ = strings.Cut(o, " ")
		}
		return a.report(open)
	})
	return slices.Sorted(maps.Keys(chosen)), err
}

// compare compares the lists of the first owners with all their keys, and returns the other owners. It reads the
// lists first: a record in a list then has its key in the log.
func (a *audit) compare(ctx context.Context, owners []string) ([]string, error) {
	var books []*book
	for held := 0; len(owners) > 0 && len(books) < ownersAtOnce && held < mostRecords; owners = owners[1:] {
		b := &book{owner: owners[0], claims: map[string][]claim{}}
		b.kind, b.id, _ = strings.Cut(b.owner, " ")
		a.result.Owners++
		if err := a.read(ctx, b); err != nil {
			if err := a.unread(ctx, b, err); err != nil {
				return nil, err
			}
			continue
		}
		books = append(books, b)
		for _, records := range b.lists {
			held += len(records)
		}
	}
	wanted := map[string][]*book{} // by owner, or by the id of a record that a key has made
	for _, b := range books {
		wanted[b.owner], wanted[b.id] = append(wanted[b.owner], b), append(wanted[b.id], b)
		wanted[b.parent] = append(wanted[b.parent], b)
		for _, r := range slices.Concat(b.lists[readsApplications], b.lists[readsOffer]) {
			for _, id := range r.ids {
				wanted[id] = append(wanted[id], b)
			}
		}
	}
	err := a.scan(ctx, func(entry *store.Entry, d *entryData, _ error) error {
		made := d.made(entry.State)
		for _, name := range append(d.Request.IDs.owners(), made...) {
			for _, b := range wanted[name] {
				b.add(entry, d, made)
			}
		}
		return nil
	})
	for _, b := range books {
		if err == nil {
			err = a.judge(ctx, b)
		}
	}
	return owners, err
}

// judge reports the differences of an owner, if two reads show them.
func (a *audit) judge(ctx context.Context, b *book) error {
	found, lags := b.judge(a.gone, a.MaxLateness)
	if len(found) > 0 {
		if err := a.read(ctx, b); err != nil {
			return a.unread(ctx, b, err)
		}
		if again, _ := b.judge(a.gone, a.MaxLateness); !reflect.DeepEqual(again, found) {
			return a.unread(ctx, b, errUnsteady)
		}
	}
	for _, d := range found {
		if err := a.report(d); err != nil {
			return err
		}
	}
	if !b.isWhole(a.gone) {
		a.result.NotAuditable[hasForgotten]++
	}
	if lags {
		return a.unread(ctx, b, errLags)
	}
	return nil
}

// unread reports an owner that could not be compared. It returns an error if ctx is over or the service is down.
func (a *audit) unread(ctx context.Context, b *book, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case a.failed > failuresInARow:
		return fmt.Errorf("%saudit: %d reads in a row failed: %w", prefix, a.failed, err)
	}
	return a.report(Difference{Kind: Unread, Owner: b.kind, ID: b.id, Why: redact.Describe(err)})
}

// read reads the lists of an owner, and counts the failures in a row.
func (a *audit) read(ctx context.Context, b *book) error {
	ctx, stop := context.WithTimeout(ctx, readLimit)
	defer stop()
	err := backoff.Sleep(ctx, a.wait)
	if err == nil {
		err = b.read(ctx, a)
	}
	if a.failed++; err == nil || lending.OutcomeOf(err) == lending.OutcomeRejected {
		a.failed = 0
	}
	return err
}

// read reads the lists of an owner, and the application of a loan if the age of the loan matters.
func (b *book) read(ctx context.Context, a *audit) error {
	client, id := a.Client, uuid.MustParse(b.id)
	b.at, b.lists = time.Now(), map[reads][]record{}
	switch b.kind {
	case "customer":
		applications, err := client.Applications.ListByCustomer(ctx, lending.CustomerID(id))
		b.lists[readsApplications] = recordsOf(b.id, applications...)
		loans, noLoans := client.Loans.ListByCustomer(ctx, lending.CustomerID(id))
		b.lists[readsLoans] = nil
		for _, loan := range loans {
			b.lists[readsLoans] = append(b.lists[readsLoans], record{loan.ID.String(), []string{loan.ApplicationID.String()}})
		}
		return cmp.Or(unlessMissing(err), unlessMissing(noLoans))
	case "application":
		applicants, err := client.Approval.Applicants(ctx, lending.ApplicationID(id))
		b.lists[readsApplicants] = recordsOf(b.id, applicants...)
		offer, noOffer := client.Applications.Offer(ctx, lending.ApplicationID(id), nil)
		switch {
		case lending.IsNotFound(noOffer): // tells nothing
			noOffer = nil
		case noOffer == nil && idOf(offer.Raw()) != "":
			b.lists[readsOffer] = recordsOf(b.id, offer)
		}
		return cmp.Or(unlessMissing(err), noOffer)
	}
	if !a.gone.IsZero() && b.parent == "" {
		loan, err := client.Loans.Get(ctx, lending.LoanID(id))
		if err != nil {
			return err
		}
		b.parent = loan.ApplicationID.String()
	}
	b.lists[readsWithdrawals] = nil
	for withdrawal, err := range client.Loans.AllWithdrawals(ctx, lending.LoanID(id), nil) {
		switch {
		case unlessMissing(err) != nil:
			return err
		case len(b.lists[readsWithdrawals]) >= mostRecords:
			return errTooMany
		case err == nil && (a.IsConfirmed == nil || a.IsConfirmed(withdrawal)):
			b.lists[readsWithdrawals] = append(b.lists[readsWithdrawals], recordsOf(b.id, withdrawal)...)
		}
	}
	return nil
}

// unlessMissing returns the error of a list, or nil if the service does not know the owner: the list is empty. A 400
// is no absence here.
func unlessMissing(err error) error {
	if failed, ok := errors.AsType[*lending.Error](err); ok && failed.StatusCode == http.StatusNotFound && lending.IsNotFound(err) {
		return nil
	}
	return err
}

// recordsOf returns the records of the owner own.
func recordsOf[T interface{ Raw() json.RawMessage }](own string, records ...T) (all []record) {
	for _, r := range records {
		all = append(all, recordOf(r.Raw(), ids{"": own}))
	}
	return all
}
