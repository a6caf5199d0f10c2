package idempotency

import (
	"context"
	"errors"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/redact"
)

// Resolution is what a person, or a program in a person's place, has found out.
type Resolution struct {
	By      string  // required: who says so
	Why     string  // required: how it was found out
	Verdict Verdict // [Happened] or [NotHappened]
	Correct bool    // the verdict replaces an earlier one
}

// Resolve ends the doubt about a mutation. After [Happened] calls with the key return its
// answer; after [NotHappened] the next call sends the mutation. The entry keeps who and why.
//
// A verdict can be corrected until a call relies on it: a call with the key, or a call with
// another key that takes the lock of the mutation.
//
// Resolve fails with [ErrInProgress] while the mutation may be in flight, and with [ErrInDoubt] if
// NotHappened comes before MaxLateness is over since the end of the call. It fails with a
// [*lending.ArgumentError] if nothing is in doubt, if the route does not answer with what Happened
// holds, and if NotHappened contradicts the check of the route. Resolve makes that check with a
// client of the account that has used the log in this process; without one it relies on the person.
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
	case adds && r.Correct: // what the earlier verdict has left is not so
		err = s.remember(ctx, entry.Lock, snapshot{Count: -1})
	case adds && v.happened:
		err = s.remember(ctx, entry.Lock, data.left(v.answer))
	}
	if err != nil {
		return storeError(err)
	}
	return storeError(s.store.Save(ctx, data.resolved(entry, r, s.MaxAnswer)))
}

// allows returns why the entry does not take the verdict.
func (s *settings) allows(ctx context.Context, key string, r Resolution, entry *store.Entry, d *entryData) error {
	v, idle := r.Verdict.verdict(), d.idle(entry)
	switch {
	case r.Correct && !d.isCorrectable(entry):
		return argumentError("Correct", lending.CodeConflict, "must be false: no verdict can be corrected, or a call has relied on it")
	case !r.Correct && !isInDoubt(entry.State) && (entry.State != store.Forgotten || d.isCorrectable(entry)):
		return argumentError("key", lending.CodeConflict, "must be that of a mutation in doubt")
	case v.absent && !r.Correct && (d.Happened || entry.State == store.Forgotten):
		return argumentError("Verdict", lending.CodeConflict, "must be Happened: the service has answered that it is done")
	case idle < 0:
		return &Error{Key: key, kind: ErrInProgress, RetryAfter: -idle}
	case v.absent && idle < s.MaxLateness:
		return &Error{Key: key, kind: ErrInDoubt, Why: "it can be executed late", RetryAfter: s.MaxLateness - idle}
	case v.absent:
		return s.contradicted(ctx, key, d)
	}
	if shape := shapeOf(d.Route); v.answer != nil && !shape.fits(v.answer) {
		return argumentError("Verdict", lending.CodeFormat, "must hold what the route answers with: "+shape.name)
	}
	return nil
}

// contradicted returns an error if the check of the route shows a mutation that a person does not
// find.
func (s *settings) contradicted(ctx context.Context, key string, d *entryData) error {
	client, ok := s.clients.Load(d.Account)
	row := rowOf(d.Route)
	if !ok || row.check == nil || d.Before == nil {
		return nil
	}
	v, err := row.verdict(ctx, &target{client: client.(*lending.Client), ids: d.IDs}, d.Before, max(1, d.Adds))
	switch {
	case errors.Is(err, errNeedsRequest), lending.OutcomeOf(err) == lending.OutcomeRejected:
		return nil // no check tells the person more
	case err != nil:
		return &Error{Key: key, kind: ErrInDoubt, cause: redact.Hide(err), Why: "the check failed", RetryAfter: time.Second}
	case v.happened:
		return argumentError("Verdict", lending.CodeConflict, "must be Happened: the check shows it, read it with "+d.CheckWith)
	}
	return nil
}

// isCorrectable reports whether nothing relies on the verdict of the entry.
func (d *entryData) isCorrectable(entry *store.Entry) bool {
	return d.Verdict != nil && !isInDoubt(entry.State) && (entry.Lock != "" || !d.Verdict.Locked)
}

// resolved returns entry with a verdict. It keeps its lock, so that whoever needs the lock
// changes the entry.
func (d *entryData) resolved(entry *store.Entry, r Resolution, maxAnswer int) store.Entry {
	idle := d.idle(entry)
	d.Why, d.ResolvedBy = r.Why, r.By
	next := d.ended(entry, r.Verdict.verdict(), maxAnswer)
	d.Idle, d.Verdict = idle, &freshVerdict{Locked: entry.Lock != ""}
	next.Lock, next.Data = entry.Lock, d.bytes()
	return next
}
