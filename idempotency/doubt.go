package idempotency

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency/store"
)

// maxRefused is the largest number of rejected resends. A rejection of a resend does not tell
// whether the first send succeeded, so further resends would never end the doubt.
const maxRefused = 5

// endDoubt ends the doubt about a mutation whose last send ended idle ago, or finds the response
// of a mutation that happened. It resends the mutation only if a check shows that the mutation
// did not happen, or if a resend is safe.
func (k *keyedCall) endDoubt(ctx context.Context, idle time.Duration) (*lending.Response, error) {
	v, err := k.verdict(ctx)
	if err == nil {
		err = v.err
	}
	late := k.MaxLateness - idle // the time in which an execution or a read can still be late
	switch {
	case err != nil:
		return nil, k.refuse(Error{kind: ErrInDoubt, cause: err, RetryAfter: recheck(idle, k.MaxLateness)})
	case v.happened && (v.answer != nil || k.check != nil || !k.call.NeedsAnswer() || !k.isRepeatable()):
		return k.found(ctx, v)
	case k.isRepeatable() || v.absent && late <= 0 && !k.data.Happened:
		return nil, k.again(ctx, v, idle)
	case (v.absent || v.early || k.changed != nil && !k.data.Happened) && late > 0:
		why := cmp.Or(v.why, "no read shows the mutation, but the service can still execute it")
		return nil, k.refuse(Error{kind: ErrInDoubt, Why: why, RetryAfter: k.wait(idle, late)})
	case k.data.Happened && k.row.answer == nil && (k.row.check != nil || k.row.setsValue): // a person does not know the response either
		return k.found(ctx, verdict{happened: true})
	}
	if k.entry.State != store.NeedsReview { // a second save would reset the age
		v.why = cmp.Or(v.why, "the mutation happened, but the check does not find its effect")
		if k.data.Refused >= maxRefused {
			v.why = "the service rejects every resend, and " + v.why
		}
		k.data.Why = v.why
		if err := k.save(ctx, store.NeedsReview, k.entry.Lock); err != nil {
			return nil, k.unsaved(err)
		}
	}
	return nil, k.refuse(Error{kind: ErrNeedsReview, Why: v.why})
}

// verdict returns the verdict of the caller's check, or else of the check of the route.
func (k *keyedCall) verdict(ctx context.Context) (verdict, error) {
	switch {
	case k.check != nil:
		v, err := k.check(ctx)
		return v.verdict(), err
	case k.entry.State == store.NeedsReview:
		return verdict{why: k.data.Why}, nil
	case k.data.Happened && k.row.answer == nil:
		return verdict{why: "the mutation happened, but no read shows the response"}, nil
	}
	n := records(k.call)
	if k.changed != nil && k.data.Adds > 0 {
		n = k.data.Adds
	}
	return k.row.verdict(ctx, k.target(), k.data.Before, n)
}

// verdict makes the check of a mutation of n records, and rebuilds the response if possible.
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

// finish ends the doubt about a mutation of another call if a read can. The entry has the ids
// for the read.
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

// isRepeatable reports whether a second execution does no harm. A mutation that sets a value is
// not repeatable after another mutation has taken the lock: the resend would overwrite a newer
// value.
func (k *keyedCall) isRepeatable() bool {
	if k.changed != nil && (k.data.Happened || k.data.idle(&k.entry) < k.MaxLateness) {
		return false // the changed request is another mutation
	}
	isLatest := k.row.setsValue && k.entry.Lock == k.lock
	return k.data.Refused < maxRefused && (k.safeToRepeat || isLatest)
}

// found records that the mutation happened, and returns the response if there is one.
func (k *keyedCall) found(ctx context.Context, v verdict) (*lending.Response, error) {
	if k.entry.State == store.Forgotten && v.answer == nil { // the entry says the same
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

// again prepares a resend: at once after the first send, and then after growing pauses.
func (k *keyedCall) again(ctx context.Context, v verdict, idle time.Duration) error {
	late := k.MaxLateness - idle
	if pause := k.pause() - idle; pause > 0 && !v.absent {
		return k.refuse(Error{kind: ErrInDoubt, Why: "the mutation was resent a moment ago", RetryAfter: pause})
	}
	if late > 0 {
		k.data.Hold = k.MaxLateness // a late execution would undo the next mutation, or look like it
	}
	if k.check != nil {
		k.data.Before = nil // the caller's check did not use the snapshot
	}
	k.doubt = k.data.Happened || !v.absent || late > 0
	return k.prepare(ctx)
}

// pause is the minimum time between the end of the last send and a resend.
func (k *keyedCall) pause() time.Duration {
	if k.data.Sends < 2 {
		return 0
	}
	return min(time.Second<<min(k.data.Sends-2, 20), k.MaxLateness)
}

// wait returns the wait before the next check. A late execution is possible until late is over.
// A mutation with a known success is checked earlier, after doubling pauses.
func (k *keyedCall) wait(idle, late time.Duration) time.Duration {
	if k.data.Happened {
		return recheck(idle, late)
	}
	return late
}

// recheck returns the wait before the next check: as long as the wait so far, at most most.
func recheck(idle, most time.Duration) time.Duration {
	return max(min(idle, most), time.Second)
}
