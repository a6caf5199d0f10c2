package idempotency

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency/store"
)

// maxRejected is the largest number of rejected resends. A rejection of a resend does not tell
// whether the first send succeeded, so further resends would never end the doubt.
const maxRejected = 5

// evidence is the result of a check.
type evidence int

const (
	silent   evidence = iota // no check can tell
	unclear                  // a later check can show more
	absent                   // no effect
	happened                 // the effect
)

// finding is the result of a check, with its details.
type finding struct {
	evidence evidence
	answer   []byte // the response of a mutation that happened; nil if lost
	why      string // the reason for a review
	verdict  bool   // a person or the caller's check says so
	err      error  // the response cannot be encoded
}

// shownByRead is the reason of an end in a history.
const shownByRead = "a check shows it"

// needsNone reports whether a mutation that happened is a success without its response.
func (r route) needsNone(f finding) bool { return r.optional || r.unused && f.verdict }

// standing is the knowledge of the log about a mutation in doubt.
type standing int

const (
	harmless  standing = iota // a second execution does no harm
	open                      // the service can still execute the mutation
	overdue                   // the service can no longer execute the mutation
	confirmed                 // the service has confirmed the mutation; a later read can show the response
	unshown                   // the same, and a later read shows no more
)

// action ends a doubt, or leaves it for the next call.
type action int

const (
	thenWait   action = iota // make the check again later
	thenRecord               // record that the mutation happened
	thenResend               // send the mutation again
	thenReview               // leave the decision to a person
	thenLose                 // the mutation happened, and its response is lost
)

// actions is the action of a call by standing and evidence.
var actions = [...][4]action{
	//          silent, unclear, absent, happened
	harmless:  {thenResend, thenResend, thenResend, thenRecord},
	open:      {thenReview, thenWait, thenWait, thenRecord},
	overdue:   {thenReview, thenReview, thenResend, thenRecord},
	confirmed: {thenLose, thenWait, thenWait, thenRecord},
	unshown:   {thenLose, thenLose, thenLose, thenRecord},
}

// endDoubt ends the doubt about a mutation whose last send ended idle ago, or finds the response
// of a mutation that happened. It resends the mutation only if a check shows that the mutation
// did not happen, or if a resend is safe.
func (k *keyedCall) endDoubt(ctx context.Context, idle time.Duration) (*lending.Response, error) {
	late := k.MaxLateness - idle // the time in which an execution or a read can still be late
	f, err := k.find(ctx)
	if err != nil {
		return nil, k.refuse(Error{kind: ErrInDoubt, cause: err, RetryAfter: recheck(idle, k.MaxLateness)})
	}
	switch k.actionOn(f, late) {
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
	case thenReview:
	}
	if k.data.Doubt.Rejected >= maxRejected && k.entry.State != store.NeedsReview {
		f.why = "the service rejects every resend, and " + f.why
	}
	return nil, k.needReview(ctx, f.why)
}

// needReview records that a person has to decide, or to supply the response.
func (k *keyedCall) needReview(ctx context.Context, why string) error {
	if k.entry.State != store.NeedsReview { // a second save would reset the age
		why = k.data.reviewed(why)
		k.data.Doubt.Told = true
		now := line{State: store.NeedsReview, Why: why}
		if err := k.save(ctx, k.data.keeps(k.entry.Lock, now.State), now); err != nil {
			return k.unsaved(err)
		}
		k.makesReview = true
	}
	return k.refuse(Error{kind: ErrNeedsReview, Why: why})
}

// actionOn returns the action on the result of a check.
func (k *keyedCall) actionOn(f finding, late time.Duration) action {
	s := open
	switch isConfirmed := k.data.Doubt.Happened; {
	case k.isRepeatable():
		s = harmless
		if f.evidence == happened && f.answer == nil && k.call.NeedsAnswer() && k.check == nil {
			return thenResend // to get the response
		}
	case isConfirmed && late > 0:
		s = confirmed
	case isConfirmed:
		s = unshown
	case late <= 0:
		s = overdue
	case f.evidence == silent && k.changed != nil: // the recorded request is over later
		return thenWait
	}
	return actions[s][f.evidence]
}

// find makes the caller's check, or else the check of the route.
func (k *keyedCall) find(ctx context.Context) (f finding, err error) {
	switch {
	case k.check != nil:
		v, failed := k.check(ctx)
		f = v.finding()
		return f, cmp.Or(failed, f.err)
	case k.entry.State == store.NeedsReview:
		return finding{why: k.data.decided().Why}, nil
	case k.data.Doubt.Happened && k.row.answer == nil:
		return finding{why: "the mutation happened, but no read shows the response"}, nil
	}
	n := cmp.Or(max(0, k.data.Send.Adds), records(k.call))
	return k.settings.find(ctx, k.entry.Key, k.row, k.target, &k.data.Send, n)
}

// find makes the check of a mutation of n records, and rebuilds the response if possible.
func (s *settings) find(ctx context.Context, key string, r route, t *target, of *send, n int) (finding, error) {
	if r.check == nil {
		return finding{why: r.reason()}, nil
	}
	if of.Before == nil && !of.Presumed {
		return finding{why: notCounted}, nil
	}
	after, err := r.check(ctx, t)
	if err != nil {
		return finding{}, err
	}
	before, claimer := of.Before, ""
	if of.Presumed {
		if before, claimer, err = s.beforeCopy(ctx, key, r, t, after); err != nil {
			return finding{}, err
		}
	}
	f := r.judge(before, after, n)
	if f.evidence == absent && claimer != "" {
		f = finding{evidence: unclear, why: "key " + strconv.Quote(claimer) + " may have taken its record: compare both"}
	}
	if f.evidence == happened && r.answer != nil {
		f.answer, err = r.answer(ctx, t, before, after)
	}
	return f, err
}

// endOther ends the doubt about a mutation of another call if a read can. If no read can when the
// service can no longer execute the mutation, a person decides, unless callDecides. It returns the
// wait before the next try, or 0 if a next try would change nothing.
func (s *settings) endOther(
	ctx context.Context, client *lending.Client, entry *store.Entry, d *entryData, callDecides bool,
) (time.Duration, error) {
	idle := d.idle(entry)
	if idle < 0 {
		return -idle, nil
	}
	late := s.MaxLateness - idle
	var f finding
	var err error
	switch {
	case !s.isOf(d.Request.Account, client.Account()):
	case entry.State == store.NeedsReview:
		f.why = d.decided().Why
	default: // the entry has the ids for the read
		of := &target{client: client, ids: d.Request.IDs}
		f, err = s.find(ctx, entry.Key, rowOf(d.Request.Route), of, &d.Send, max(1, d.Send.Adds))
	}
	switch isShown := f.evidence == happened; {
	case err != nil:
		return recheck(idle, s.MaxLateness), err
	case isShown || f.evidence == absent && late <= 0 && !d.Doubt.Happened:
		if isShown && d.Send.Adds != 0 && entry.Lock != "" {
			err = s.remember(ctx, entry.Lock, d.effect(f.answer))
		}
		if f.why = shownByRead; err == nil {
			now := d.end(f, "")
			d.note(entry, now)
			err = s.store.Save(ctx, d.next(entry, now.State, d.keeps(entry.Lock, now.State)))
		}
		return 0, err
	case callDecides:
		return 0, nil
	case late > 0:
		return recheck(idle, late), nil
	}
	d.Doubt.Told, d.Send.Before = false, nil // the count is wrong as soon as another mutation has the lock
	d.change(entry, line{State: store.NeedsReview, Why: d.reviewed(cmp.Or(f.why, "another mutation has taken its lock"))})
	return 0, s.store.Save(ctx, d.next(entry, store.NeedsReview, ""))
}

// isRepeatable reports whether a second execution does no harm. A mutation that sets a value is
// not repeatable after another mutation has taken the lock: the resend would overwrite a newer
// value.
func (k *keyedCall) isRepeatable() bool {
	if k.changed != nil && (k.data.Doubt.Happened || k.data.idle(&k.entry) < k.MaxLateness) {
		return false // the changed request is another mutation
	}
	isLatest := k.row.setsValue && k.entry.Lock == k.lock
	return k.data.Doubt.Rejected < maxRejected && (k.safeToRepeat || isLatest)
}

// repeats reports whether [Options].SafeToRepeat names the route.
func (s *settings) repeats(route string) bool { return slices.Contains(s.SafeToRepeat, Route(route)) }

// recordFound records that the mutation happened, and returns the response. A response that is
// lost and not optional needs a person.
func (k *keyedCall) recordFound(ctx context.Context, f finding) (*lending.Response, error) {
	if k.adds() && !k.data.Doubt.Happened {
		if err := k.remember(ctx, k.lock, k.data.effect(f.answer)); err != nil {
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
	return k.replay(ctx, ActionRebuilt)
}

// resend prepares a resend: at once after the first send, and then after growing pauses.
func (k *keyedCall) resend(ctx context.Context, f finding, late time.Duration) error {
	isAbsent, idle := f.evidence == absent, k.MaxLateness-late
	if pause := k.pause() - idle; pause > 0 && !isAbsent {
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

// pause is the minimum time between the end of the last send and a resend.
func (k *keyedCall) pause() time.Duration {
	if k.data.Send.Number < 2 {
		return 0
	}
	return min(time.Second<<min(k.data.Send.Number-2, 20), k.MaxLateness)
}

// recheck returns the wait before the next check: as long as the wait so far, at most most.
func recheck(idle, most time.Duration) time.Duration {
	return max(min(idle, most), time.Second)
}
