package idempotency

import (
	"context"
	"errors"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/redact"
)

// Resolution is the decision of a person, or of a program in the place of a person.
type Resolution struct {
	By      string  // required: the name of the person
	Why     string  // required: the evidence
	Verdict Verdict // [Happened] or [NotHappened]
	Correct bool    // whether the verdict replaces an earlier verdict
}

// Resolve ends the doubt about a mutation. After [Happened], calls with the key return the
// response of the verdict. After [NotHappened], the next call sends the mutation. The entry
// keeps By and Why.
//
// A verdict can be corrected until a call relies on the verdict: a call with the key, or a call
// with another key that takes the lock of the mutation.
//
// Resolve fails
//   - with [ErrInProgress] while the mutation may be in flight;
//   - with [ErrInDoubt] if NotHappened comes earlier than MaxLateness after the end of the call, or
//     if the check of the route fails;
//   - with a [*lending.ArgumentError] if the mutation is not in doubt, if the response of Happened
//     does not fit the route, or if the check of the route shows that a NotHappened is wrong.
//
// For that check Resolve needs a client of the same account that has used the log in this
// process. Without such a client Resolve trusts the person.
func (l *Log) Resolve(ctx context.Context, key string, r Resolution) error {
	s, err := l.settings()
	if err != nil {
		return err
	}
	v := r.Verdict.verdict()
	var c arguments
	c.that(key != "", "key", lending.CodeRequired, "must not be empty")
	c.that(r.By != "", "By", lending.CodeRequired, "must not be empty")
	c.that(r.Why != "", "Why", lending.CodeRequired, "must not be empty")
	c.that(v.happened || v.absent, "Verdict", lending.CodeRequired, "must be Happened or NotHappened")
	c.that(v.err == nil, "Verdict", lending.CodeEncoding, "must hold an answer that can be written as JSON")
	if err := c.err(); err != nil {
		return err
	}
	entry, err := s.store.Load(ctx, s.stored(key))
	if err != nil {
		return storeError(err)
	}
	if entry == nil {
		return argumentError("key", lending.CodeConflict, "must be that of a mutation in doubt")
	}
	data, err := readData(entry.Data)
	if err != nil {
		return storeError(err)
	}
	if err := s.allows(ctx, key, r, entry, &data); err != nil {
		return err
	}
	switch adds := entry.Lock != "" && rowOf(data.Route).adds; {
	case adds && r.Correct: // the count of the earlier verdict is wrong
		err = s.remember(ctx, entry.Lock, snapshot{Count: -1})
	case adds && v.happened:
		err = s.remember(ctx, entry.Lock, data.left(v.answer))
	}
	if err != nil {
		return storeError(err)
	}
	return storeError(s.store.Save(ctx, data.resolved(entry, r, s.MaxAnswer)))
}

// allows returns the reason if the entry cannot take the verdict.
func (s *settings) allows(ctx context.Context, key string, r Resolution, entry *store.Entry, d *entryData) error {
	v, idle := r.Verdict.verdict(), d.idle(entry)
	switch {
	case r.Correct && !d.isCorrectable(entry):
		return argumentError("Correct", lending.CodeConflict, "must be false: there is no verdict to correct, or a call has relied on the verdict")
	case !r.Correct && !isInDoubt(entry.State) && (entry.State != store.Forgotten || d.isCorrectable(entry)):
		return argumentError("key", lending.CodeConflict, "must be that of a mutation in doubt")
	case v.absent && !r.Correct && (d.Happened || entry.State == store.Forgotten):
		return argumentError("Verdict", lending.CodeConflict, "must be Happened: the service has confirmed the mutation")
	case idle < 0:
		return &Error{Key: key, kind: ErrInProgress, RetryAfter: -idle}
	case v.absent && idle < s.MaxLateness:
		return &Error{Key: key, kind: ErrInDoubt, Why: "the service can still execute the mutation", RetryAfter: s.MaxLateness - idle}
	case v.absent:
		return s.contradicted(ctx, key, d)
	}
	if shape := shapeOf(d.Route); v.answer != nil && !shape.fits(v.answer) {
		return argumentError("Verdict", lending.CodeFormat, "must hold the response of the route: "+shape.name)
	}
	return nil
}

// contradicted returns an error if the check of the route shows the mutation, although the
// person says that it did not happen.
func (s *settings) contradicted(ctx context.Context, key string, d *entryData) error {
	client, ok := s.clients.Load(d.Account)
	row := rowOf(d.Route)
	if !ok || row.check == nil || d.Before == nil {
		return nil
	}
	v, err := row.verdict(ctx, &target{client: client.(*lending.Client), ids: d.IDs}, d.Before, max(1, d.Adds))
	switch {
	case errors.Is(err, errNeedsRequest), lending.OutcomeOf(err) == lending.OutcomeRejected:
		return nil // the check can tell nothing more
	case err != nil:
		return &Error{Key: key, kind: ErrInDoubt, cause: redact.Hide(err), Why: "the check failed", RetryAfter: time.Second}
	case v.happened:
		return argumentError("Verdict", lending.CodeConflict, "must be Happened: the check shows the mutation; read "+d.CheckWith)
	}
	return nil
}

// isCorrectable reports whether the entry has a verdict and no call has relied on the verdict.
func (d *entryData) isCorrectable(entry *store.Entry) bool {
	return d.Verdict != nil && !isInDoubt(entry.State) && (entry.Lock != "" || !d.Verdict.Locked)
}

// resolved returns entry with a verdict. The entry keeps its lock: a mutation that needs the
// lock then changes the entry, which ends the time for corrections.
func (d *entryData) resolved(entry *store.Entry, r Resolution, maxAnswer int) store.Entry {
	idle := d.idle(entry)
	d.Why, d.ResolvedBy = r.Why, r.By
	next := d.ended(entry, r.Verdict.verdict(), maxAnswer)
	d.Idle, d.Verdict = idle, &freshVerdict{Locked: entry.Lock != ""}
	next.Lock, next.Data = entry.Lock, d.bytes()
	return next
}
