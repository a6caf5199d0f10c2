package idempotency

import (
	"context"
	"errors"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency/store"
)

const (
	ownersAtOnce = 1000 // an audit reads the log again for each batch of owners
	openAfter    = 24 * time.Hour
	hasForgotten = "owners of which the log has forgotten a key"
)

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
// Audit reads the whole log twice for each 1,000 owners, and keeps no more than their keys. It
// writes only its result, which [Log.Audited] returns, and only if it runs to its end.
func (l *Log) Audit(ctx context.Context, opts AuditOptions) iter.Seq2[Difference, error] {
	return func(yield func(Difference, error) bool) {
		a := l.settings().newAudit(opts)
		a.yield = func(d Difference) bool { return yield(d, nil) }
		if err := a.run(ctx); err != nil && !errors.Is(err, errEnough) {
			yield(Difference{}, err)
		}
	}
}

// run makes the audit, and saves its result.
func (a *audit) run(ctx context.Context) error {
	var c arguments
	c.that(a.Client != nil, "Client", lending.CodeRequired, "must not be nil")
	c.that(!a.From.IsZero() && a.From.Before(a.To), "From", lending.CodeRange, "must be before To")
	c.that(a.Wait >= 0, "Wait", lending.CodeRange, "must not be negative")
	if err := c.err(); err != nil {
		return err
	}
	if !a.serves(a.Client.Account()) {
		return argumentError("Client", lending.CodeConflict, "must be of the account of the log: "+oneAccount)
	}
	now, err := a.operator.recent(ctx)
	if err != nil {
		return storeError(err)
	}
	a.gone = now.Gone
	for last := (owner{}); ; {
		owners, err := a.choose(ctx, last)
		switch {
		case err != nil:
			return err
		case len(owners) == 0:
			return storeError(a.changeAudits(ctx, a.end))
		}
		last = owners[len(owners)-1]
		if err := a.compare(ctx, owners); err != nil {
			return err
		}
		if a.isDaily { // for the other replicas: the audit goes on
			if err := a.changeAudits(ctx, func(*audits) {}); err != nil {
				return storeError(err)
			}
		}
	}
}

// end puts the result into the entry of the audits.
func (a *audit) end(all *audits) {
	if all.Last, all.Ended = &a.result, 0; a.isDaily {
		all.Until, all.Runs = a.To, false
	}
}

// scan calls f with the entries of the account of the client, and with an error for unreadable entries.
func (a *audit) scan(ctx context.Context, f func(*store.Entry, *entryData, error) error) error {
	for entry, err := range store.All(ctx, a.store, store.Filter{Prefix: a.stored(""), States: allStates, Limit: pageLimit}) {
		if err != nil {
			return storeError(err)
		}
		entry.Key = strings.TrimPrefix(entry.Key, a.stored(""))
		d, unread := readData(entry.Data)
		if unread != nil || a.isOf(d.Request.Account, a.Client.Account()) {
			if err := f(&entry, &d, unread); err != nil {
				return err
			}
		}
	}
	return nil
}

// choose returns the first owners of the period after last, in their order. The first call counts all keys.
func (a *audit) choose(ctx context.Context, last owner) ([]owner, error) {
	some := map[owner]bool{}
	first := func() []owner {
		all := slices.SortedFunc(maps.Keys(some), owner.compare)
		return all[:min(len(all), ownersAtOnce)]
	}
	err := a.scan(ctx, func(entry *store.Entry, d *entryData, unread error) error {
		at := changedAt(entry)
		isOfPeriod := !at.Before(a.From) && at.Before(a.To)
		for _, o := range d.Request.IDs.owners() {
			if isOfPeriod && o.compare(last) > 0 {
				some[o] = true
			}
		}
		if len(some) >= 2*ownersAtOnce {
			kept := first()
			clear(some)
			for _, o := range kept {
				some[o] = true
			}
		}
		if last != (owner{}) {
			return nil
		}
		return a.count(entry, d, isOfPeriod, unread)
	})
	return first(), err
}

// count counts a key, and reports a key in doubt for long, or without readable data.
func (a *audit) count(entry *store.Entry, d *entryData, isOfPeriod bool, unread error) error {
	if unread != nil {
		a.gone = time.Now()
		return a.report(Difference{Kind: Unread, Keys: []string{entry.Key}, Why: unread.Error()})
	}
	if isOfPeriod {
		a.result.Keys++
		if row := rowOf(d.Request.Route); entry.State != store.Free && (!row.adds || row.reads == noReads || row.isOne) {
			a.result.NotAuditable[d.Request.Route]++
		}
	}
	if !isInDoubt(entry.State) {
		return nil
	}
	status := a.status(entry)
	if status.Age <= openAfter {
		return nil
	}
	open := Difference{Kind: Open, Keys: []string{entry.Key}, Why: status.Why}
	for _, o := range d.Request.IDs.owners() {
		open.Owner, open.ID = o.kind, o.id
	}
	return a.report(open)
}

// compare compares the lists of the owners with all their keys. It reads the lists first: a record in a list then has
// its key in the log.
func (a *audit) compare(ctx context.Context, owners []owner) error {
	a.result.Owners += len(owners)
	books := make([]*book, len(owners))
	for i, o := range owners {
		books[i] = &book{owner: o}
	}
	books, err := a.each(ctx, books, a.read)
	if err == nil {
		err = a.collect(ctx, books)
	}
	if err == nil {
		_, err = a.each(ctx, books, a.judge)
	}
	return err
}

// judge reports the differences of an owner, if two reads show them.
func (a *audit) judge(ctx context.Context, b *book) error {
	found, err := b.judge(a.gone, a.MaxLateness)
	if len(found) == 0 {
		if err == nil && !b.isWhole(a.gone) {
			a.result.NotAuditable[hasForgotten]++
		}
		return err
	}
	if err := a.read(ctx, b); err != nil {
		return err
	}
	if again, _ := b.judge(a.gone, a.MaxLateness); !reflect.DeepEqual(again, found) {
		return errUnsteady
	}
	for _, d := range found {
		if err := a.report(d); err != nil {
			return err
		}
	}
	return err
}

// collect collects the claims of all keys of the owners, and of the keys behind its other applications.
func (a *audit) collect(ctx context.Context, books []*book) error {
	wanted := map[string][]*book{}
	for _, b := range books {
		b.claims = map[string][]claim{}
		want := []string{b.id, b.parent}
		for _, l := range b.lists {
			for _, record := range l.records {
				if l.in == readsApplications && record.id != "" {
					want = append(want, record.id)
				} else if l.in == readsApplications {
					want = append(want, record.ids...)
				}
			}
		}
		for _, id := range want {
			wanted[id] = append(wanted[id], b)
		}
	}
	return a.scan(ctx, func(entry *store.Entry, d *entryData, _ error) error {
		for _, o := range d.Request.IDs.owners() {
			for _, b := range wanted[o.id] {
				if b.owner == o {
					b.claim(entry, d)
				}
			}
		}
		for _, id := range d.makes(entry.State) {
			for _, b := range wanted[id] {
				b.made(id, entry, d)
			}
		}
		return nil
	})
}
