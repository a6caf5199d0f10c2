package idempotency

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency/store"
)

// maxRefused is how often the service may refuse a mutation that is sent again. That says nothing
// of the first send, and would go on for ever.
const maxRefused = 5

// endDoubt finds out what became of a mutation that has been idle for that long, or what the
// answer was of one that has happened. Neither is sent again unless a check shows that it did
// not happen, or repeating it is safe.
func (k *keyedCall) endDoubt(ctx context.Context, idle time.Duration) (*lending.Response, error) {
	v, err := k.verdict(ctx)
	if err == nil {
		err = v.err
	}
	late := k.MaxLateness - idle // how long it can still be executed, or be missing in reads
	switch {
	case err != nil:
		return nil, k.refuse(Error{kind: ErrInDoubt, cause: err, RetryAfter: recheck(idle, k.MaxLateness)})
	case v.happened && (v.answer != nil || k.check != nil || !k.call.NeedsAnswer() || !k.isRepeatable()):
		return k.found(ctx, v)
	case k.isRepeatable() || v.absent && late <= 0 && !k.data.Happened:
		return nil, k.again(ctx, v, idle)
	case (v.absent || v.early || k.changed != nil && !k.data.Happened) && late > 0:
		why := cmp.Or(v.why, "no read shows it, but it can be executed late")
		return nil, k.refuse(Error{kind: ErrInDoubt, Why: why, RetryAfter: k.wait(idle, late)})
	case k.data.Happened && k.row.answer == nil && (k.row.check != nil || k.row.setsValue): // no person knows the answer either
		return k.found(ctx, verdict{happened: true})
	}
	if k.entry.State != store.NeedsReview { // or its age would begin anew
		v.why = cmp.Or(v.why, "it happened, and the check does not find it")
		if k.data.Refused >= maxRefused {
			v.why = "the service refuses to have it again, and " + v.why
		}
		k.data.Why = v.why
		if err := k.save(ctx, store.NeedsReview, k.entry.Lock); err != nil {
			return nil, k.unsaved(err)
		}
	}
	return nil, k.refuse(Error{kind: ErrNeedsReview, Why: v.why})
}

// verdict says what became of the mutation.
func (k *keyedCall) verdict(ctx context.Context) (verdict, error) {
	switch {
	case k.check != nil:
		v, err := k.check(ctx)
		return v.verdict(), err
	case k.entry.State == store.NeedsReview:
		return verdict{why: k.data.Why}, nil
	case k.data.Happened && k.row.answer == nil:
		return verdict{why: "it happened, and no read shows its answer"}, nil
	}
	n := records(k.call)
	if k.changed != nil && k.data.Adds > 0 {
		n = k.data.Adds
	}
	return k.row.verdict(ctx, k.target(), k.data.Before, n)
}

// verdict says with a read what became of a mutation of n records, and what its answer was.
func (r route) verdict(ctx context.Context, t *target, before *snapshot, n int) (verdict, error) {
	if r.check == nil {
		return verdict{why: r.reason()}, nil
	}
	after, err := r.check(ctx, t)
	if err != nil {
		return verdict{}, err
	}
	v := r.judge(before, after, n)
	if v.happened && r.answer != nil {
		v.answer, err = r.answer(ctx, t, before, after)
	}
	return v, err
}

// finish ends the doubt about a mutation that its owner has left, if a read can: the entry has
// the ids that the read needs.
func (s *settings) finish(ctx context.Context, client *lending.Client, entry *store.Entry, d *entryData) (verdict, error) {
	if entry.State == store.NeedsReview || d.Before == nil {
		return verdict{why: cmp.Or(d.Why, rowOf(d.Route).note)}, nil
	}
	v, err := rowOf(d.Route).verdict(ctx, &target{client: client, ids: d.IDs}, d.Before, max(1, d.Adds))
	switch late := s.MaxLateness - d.idle(entry); {
	case errors.Is(err, errNeedsRequest):
		return verdict{why: err.Error(), isCallers: true}, nil
	case err != nil, !v.happened && (d.Happened || !v.absent || late > 0):
		return v, err
	case v.happened && d.Adds != 0 && entry.Lock != "":
		if err := s.remember(ctx, entry.Lock, d.left(v.answer)); err != nil {
			return v, err
		}
	}
	return v, s.store.Save(ctx, d.ended(entry, v, s.MaxAnswer))
}

// isRepeatable reports whether a second execution does no harm. One that sets a value harms the
// newer value of a mutation that has taken the lock meanwhile.
func (k *keyedCall) isRepeatable() bool {
	if k.changed != nil && (k.data.Happened || k.data.idle(&k.entry) < k.MaxLateness) {
		return false // it would be another mutation
	}
	isLatest := k.row.setsValue && k.entry.Lock == k.lock
	return k.data.Refused < maxRefused && (k.safeToRepeat || isLatest)
}

// found writes down that the mutation has happened, and returns its answer if there is one.
func (k *keyedCall) found(ctx context.Context, v verdict) (*lending.Response, error) {
	if k.entry.State == store.Forgotten && v.answer == nil { // as is written down
		return k.replay(ctx, ActionRebuilt)
	}
	if k.adds() && !k.data.Happened {
		if err := k.remember(ctx, k.lock, k.data.left(v.answer)); err != nil {
			return nil, k.unsaved(err)
		}
	}
	if err := k.store.Save(ctx, k.data.ended(&k.entry, v, k.MaxAnswer)); err != nil {
		return nil, k.unsaved(err)
	}
	return k.replay(ctx, ActionRebuilt)
}

// again has the mutation sent once more: at once after the first send, and then after pauses that
// grow.
func (k *keyedCall) again(ctx context.Context, v verdict, idle time.Duration) error {
	late := k.MaxLateness - idle
	if pause := k.pause() - idle; pause > 0 && !v.absent {
		return k.refuse(Error{kind: ErrInDoubt, Why: "it was sent again a moment ago", RetryAfter: pause})
	}
	if late > 0 {
		k.data.Hold = k.MaxLateness // one executed late would undo what comes after, or be taken for it
	}
	if k.check != nil {
		k.data.Before = nil // which this check has not looked at
	}
	k.doubt = k.data.Happened || !v.absent || late > 0
	return k.prepare(ctx)
}

// pause is how long after the last send the mutation is sent again.
func (k *keyedCall) pause() time.Duration {
	if k.data.Sends < 2 {
		return 0
	}
	return min(time.Second<<min(k.data.Sends-2, 20), k.MaxLateness)
}

// wait returns when a read can show more of a mutation that can still be executed for so long: of
// one that has happened after as long again as it has been waited for.
func (k *keyedCall) wait(idle, late time.Duration) time.Duration {
	if k.data.Happened {
		return recheck(idle, late)
	}
	return late
}

// recheck returns when to read again what did not tell: after as long as it has been waited for.
func recheck(idle, most time.Duration) time.Duration {
	return max(min(idle, most), time.Second)
}
