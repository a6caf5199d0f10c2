package idempotency

import (
	"cmp"
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

	// Sends is the number of sends that the person has looked at: [KeyStatus].Sends. Resolve
	// refuses the verdict if the log has another number, as after a further send. The default is 1.
	Sends int
}

// Resolve ends the doubt about a mutation. After [Happened], calls with the key return the
// response of the verdict. After [NotHappened], the next call sends the mutation. The entry
// keeps By and Why.
//
// A verdict can be corrected until a call uses the verdict (a call with the key, or a call
// with another key that takes the lock of the mutation), or until [Log.Sweep] removes its response.
//
// Resolve fails
//   - with [ErrInProgress] while the mutation may be in flight;
//   - with [ErrInDoubt] if NotHappened comes earlier than MaxLateness after the end of the call, or
//     if the check of the route fails;
//   - with a [*lending.ArgumentError] if the mutation is not in doubt, if Sends is not its number of
//     sends, if the response of Happened is missing or does not fit the route, or if the
//     check of the route shows that a NotHappened, or the id in a Happened, is wrong.
//
// For that check Resolve needs a client of the same account that has used the log in this
// process. Without such a client Resolve trusts the person. The id of a customer is checked by the
// next call with the key, which has the e-mail address: after a wrong id the key needs a review again.
func (l *Log) Resolve(ctx context.Context, key string, r Resolution) error {
	s := l.settings()
	f := r.Verdict.finding()
	c := Decision{By: r.By, Why: r.Why}.arguments()
	c.that(key != "", "key", lending.CodeRequired, "must not be empty")
	c.that(f.evidence == happened || f.evidence == absent, "Verdict", lending.CodeRequired, "must be Happened or NotHappened")
	c.that(f.err == nil, "Verdict", lending.CodeUnsafe, "must hold an answer that can be written as JSON")
	if err := c.err(); err != nil {
		return err
	}
	err := store.ErrConflict // another person has decided: the key takes no verdict then, and says so
	for turn := 0; turn < maxTurns && errors.Is(err, store.ErrConflict); turn++ {
		err = s.resolve(ctx, key, r, f)
	}
	return err
}

// resolve saves a verdict. The error is [store.ErrConflict] if the key has changed in the meantime.
func (s *settings) resolve(ctx context.Context, key string, r Resolution, f finding) error {
	entry, data, err := s.read(ctx, s.stored(key))
	if err != nil {
		return storeError(err)
	}
	if _, err := s.restart(ctx, &entry, &data); err != nil {
		return storeError(err)
	}
	if f.evidence == happened && f.answer == nil {
		f.answer = data.Doubt.Found
	}
	if err := s.allows(ctx, key, r, f, &entry, &data); err != nil {
		return err
	}
	switch adds := entry.Lock != "" && rowOf(data.Request.Route).adds; {
	case adds && r.Correct: // the count of the earlier verdict is wrong
		err = s.effects.remember(ctx, entry.Lock, snapshot{Count: -1})
	case adds && f.evidence == happened:
		err = s.effects.remember(ctx, entry.Lock, data.effect(f.answer))
	}
	if err != nil {
		return storeError(err)
	}
	idle := data.idle(&entry)
	f.why = r.Why
	end := data.end(f, r.By)
	data.note(&entry, end)
	data.Doubt.Idle = idle
	// A mutation that needs the lock changes the entry, which ends the time for corrections.
	return storeError(s.store.Save(ctx, data.next(&entry, end.State, entry.Lock)))
}

// allows returns the reason if the verdict cannot be accepted.
func (s *settings) allows(
	ctx context.Context, key string, r Resolution, f finding, entry *store.Entry, d *entryData,
) error {
	if field, why := d.takesVerdict(entry.State, r.Correct); why != "" {
		return argumentError(field, lending.CodeConflict, why)
	}
	idle, isAbsent := d.idle(entry), f.evidence == absent
	switch {
	case isAbsent && !r.Correct && (d.Doubt.Happened || entry.State == store.Forgotten):
		return argumentError("Verdict", lending.CodeConflict, "must be Happened: the service has confirmed the mutation")
	case max(d.Send.Number, 1) != cmp.Or(r.Sends, 1):
		return argumentError("Sends", lending.CodeConflict, "must be the current number of sends: read the key again, since the mutation may have been sent again")
	case idle < 0:
		return &Error{Key: key, kind: ErrInProgress, RetryAfter: -idle}
	case isAbsent && idle < s.MaxLateness:
		return &Error{Key: key, kind: ErrInDoubt, Why: "the service can still execute the mutation", RetryAfter: s.MaxLateness - idle}
	}
	row := rowOf(d.Request.Route)
	form, needsNone := cmp.Or(row.form, nothing), row.needsNone(f) || row.setsValue || d.Send.IsCallers
	switch {
	case f.answer != nil && !fits[form](f.answer):
		return argumentError("Verdict", lending.CodeFormat, "must hold the response of the route: "+string(form))
	case f.answer == nil && !isAbsent && form != nothing && !needsNone:
		return argumentError("Verdict", lending.CodeRequired, "must hold the response of the route, which the next call returns: "+string(form))
	}
	return s.contradicted(ctx, key, f, d, s.MaxLateness-idle)
}

// contradicted returns an error if a read shows that the verdict is wrong: the mutation that did
// not happen, or a record of another customer as the response.
func (s *settings) contradicted(ctx context.Context, key string, f finding, d *entryData, late time.Duration) error {
	client, err := s.clientOf(ctx, d.Request.Account)
	row := rowOf(d.Request.Route)
	if err != nil || client == nil || row.byEmail() || !row.canContradict(f, &d.Send) {
		return err
	}
	after, err := checks[row.reads].read(ctx, s.targetOf(client, d.Request.IDs))
	switch {
	case lending.OutcomeOf(err) == lending.OutcomeRejected: // the check can tell nothing more
	case err != nil:
		return &Error{Key: key, kind: ErrInDoubt, cause: redact.Hide(err), Why: "the check failed", RetryAfter: time.Second}
	case !row.contradicts(f, &d.Send, after, d.Request.IDs):
	case f.evidence == absent:
		return argumentError("Verdict", lending.CodeConflict, "must be Happened: the check shows the mutation; read "+d.Request.CheckWith)
	case late > 0:
		return &Error{Key: key, kind: ErrInDoubt, Why: notShown + " yet", RetryAfter: time.Second}
	default:
		return argumentError("Verdict", lending.CodeConflict, "must hold the id of the mutation's record: "+notShown+"; read "+d.Request.CheckWith)
	}
	return nil
}

const notShown = "no read shows the record of the verdict"
