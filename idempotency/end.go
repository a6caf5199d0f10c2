package idempotency

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency/store"
)

// endDoubt ends the doubt about a mutation whose last send ended idle ago, or finds the response
// of a mutation that happened. It resends the mutation only if a check shows that the mutation
// did not happen, or if a resend is safe.
func (k *keyedCall) endDoubt(ctx context.Context, idle time.Duration) (*lending.Response, error) {
	late := k.MaxLateness - idle // the time in which an execution or a read can still be late
	f, err := k.find(ctx)
	switch {
	case errors.Is(err, errReading):
		return nil, k.refuse(stillReading)
	case err != nil:
		return nil, k.refuse(Error{kind: ErrInDoubt, cause: err, RetryAfter: recheck(idle, k.MaxLateness)})
	}
	own := ownCall{
		late: late, isHarmless: k.isRepeatable(), isChanged: k.changed != nil, needsAnswer: k.call.NeedsAnswer() && k.check == nil,
	}
	switch k.data.actionOn(f, own) {
	case thenWait:
		why := cmp.Or(f.why, "no read shows the mutation, but the service can still execute it")
		return nil, k.refuse(Error{kind: ErrInDoubt, Why: why, RetryAfter: recheck(idle, late)})
	case thenRecord:
		return k.recordFound(ctx, f)
	case thenResend:
		return nil, k.resend(ctx, f, late)
	case thenLose:
		if k.row.optional {
			return k.recordFound(ctx, finding{evidence: happened})
		}
		f.why = cmp.Or(f.why, "the mutation happened, but the check does not find its effect")
	default:
	}
	if k.data.Doubt.Rejected >= maxRejected && k.entry.State != store.NeedsReview {
		f.why = "the service rejects every resend, and " + f.why
	}
	k.data.names(f)
	return nil, k.needReview(ctx, f.why)
}

// needReview records that a person has to decide, or to supply the response.
func (k *keyedCall) needReview(ctx context.Context, why string) error {
	if k.entry.State != store.NeedsReview { // a second save would reset the age
		why = k.data.reviewed(why)
		now := line{State: store.NeedsReview, Why: why}
		if err := k.save(ctx, k.data.keeps(k.entry.Lock, now.State), now); err != nil {
			return k.unsaved(err)
		}
	}
	return k.refuse(Error{kind: ErrNeedsReview, Why: why})
}

// find makes the caller's check, or else the check of the route.
func (k *keyedCall) find(ctx context.Context) (f finding, err error) {
	switch {
	case k.check != nil:
		v, failed := k.check(ctx)
		f = v.finding()
		return f, cmp.Or(failed, f.err)
	case k.entry.State == store.NeedsReview:
		return finding{why: k.data.History.decided().Why}, nil
	case k.data.Doubt.Happened && !k.row.rebuilds:
		return finding{why: "the mutation happened, but no read shows the response"}, nil
	}
	n := cmp.Or(max(0, k.data.Send.Adds), records(k.target.body))
	return k.settings.find(ctx, k.entry.Key, k.row, k.target, &k.data, n)
}

// recordFound records that the mutation happened, and returns the response. A response that is
// lost and not optional needs a person.
func (k *keyedCall) recordFound(ctx context.Context, f finding) (*lending.Response, error) {
	if k.adds() && !k.data.Doubt.Happened {
		if err := k.effects.remember(ctx, k.lock, k.data.effect(f.answer)); err != nil {
			return nil, k.unsaved(err)
		}
	}
	if f.answer == nil && k.call.NeedsAnswer() && !k.row.needsNone(f) {
		k.data.Doubt.Happened = true
		return nil, k.needReview(ctx, "the mutation happened, but no read shows the response")
	}
	f.evidence, f.why = happened, shownByRead
	if k.check != nil {
		f.why = "WithCheck says so"
	}
	now := k.data.end(f, "")
	if err := k.save(ctx, k.data.keeps(k.entry.Lock, now.State), now); err != nil {
		return nil, k.unsaved(err)
	}
	if !k.hasAnswer() {
		return nil, k.refuse(Error{kind: ErrAnswerLost})
	}
	return k.replay(ctx, ActionRebuilt), nil
}

// resend prepares a resend: at once after the first send, and then after growing pauses.
func (k *keyedCall) resend(ctx context.Context, f finding, late time.Duration) error {
	isAbsent, idle := f.evidence == absent, k.MaxLateness-late
	if pause := k.data.pause(k.MaxLateness) - idle; pause > 0 && !isAbsent {
		return k.refuse(Error{kind: ErrInDoubt, Why: "the mutation was resent a moment ago", RetryAfter: pause})
	}
	if late > 0 && !k.row.sendsOTP {
		k.data.Hold = k.MaxLateness // a late execution would undo the next mutation, or look like it
	}
	if k.check != nil {
		k.data.Send.Before = nil // the caller's check did not use the snapshot
	}
	k.inDoubt = k.data.Doubt.Happened || !isAbsent || late > 0
	why := "a second execution does no harm"
	if isAbsent {
		why = "the check does not find it"
	}
	return k.prepare(ctx, why)
}
