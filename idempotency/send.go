package idempotency

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/backoff"
	"github.com/lendingapi/lending-go/internal/redact"
	"github.com/lendingapi/lending-go/internal/verdict"
)

// recordLimit bounds the attempts to record an outcome in the store.
const recordLimit = 10 * time.Second

// prepare makes the check before the send, and records "sent" with the reason of a resend.
func (k *keyedCall) prepare(ctx context.Context, why string) error {
	k.prior = k.data
	if _, why := k.permission(ctx); why != nil {
		return k.refuse(*why)
	}
	// A failed sign-in or a missing secret must end the call before "sent" is recorded.
	if err := k.call.GetToken(ctx); err != nil {
		if k.entry.State != store.Free { // an earlier send of the key can be in doubt
			err = k.refuse(Error{kind: ErrInDoubt, cause: err})
		}
		return err
	}
	s := &k.data.Send
	if k.row.reads != noReads && s.Before == nil && k.check == nil {
		if err := k.checkBefore(ctx); err != nil {
			return err
		}
	}
	if s.Adds = 0; k.adds() {
		if s.Adds = records(k.target.body); k.row.once && s.Before != nil && s.Before.Count > 0 {
			s.Adds = -1 // the record may replace the earlier one
		}
	}
	if k.changed != nil {
		k.data.Request.Fingerprint = k.changed
	}
	deadline, _ := ctx.Deadline()
	k.nonce, s.AfterRestore = rand.Text(), false
	k.data.Request.Frozen = true
	s.Nonce, s.Lease, s.Open, s.IsCallers = k.nonce, time.Until(deadline), true, k.safeToRepeat || k.check != nil
	s.Number++
	before := k.entry.State
	err := k.saveWithLock(ctx, line{State: store.Sent, Why: why})
	failed := k.unsaved(err)
	if _, isRefused := errors.AsType[*lending.Error](err); err != nil && !isRefused && !errors.Is(err, store.ErrConflict) {
		k.takeBack(ctx, before, notSent) // the failed save may have had its effect
	}
	return failed
}

// permission returns the reason if no call may begin to send a mutation. Otherwise a send may begin
// before the returned time.
func (s *settings) permission(ctx context.Context) (before time.Time, why *Error) {
	switch now, err := s.operator.recent(ctx); {
	case err != nil:
		return before, &Error{kind: ErrStore, cause: err}
	case now.Pause != nil:
		return before, &Error{kind: ErrPaused, Why: now.Pause.String()}
	default:
		return now.at.Add(maxStale), nil
	}
}

// withhold takes "sent" back: the call had no permission to send when its connection was ready.
func (k *keyedCall) withhold(ctx context.Context, why Error) error {
	before := store.Free
	if k.inDoubt {
		before = store.InDoubt
	}
	k.takeBack(ctx, before, "not sent: the log was paused, or its store failed")
	k.entry.State = before // also if the store does not know it
	return k.refuse(why)
}

const notSent = "not sent: the store failed"

// takeBack records that the mutation was not sent after all, here or with the next call.
func (k *keyedCall) takeBack(ctx context.Context, before store.State, why string) {
	k.data.Send.Open = k.prior.Send.Open
	if k.undo(ctx, time.Second, why) != nil {
		k.unsent.Store(k.entry.Key, unsent{nonce: k.nonce, state: before, data: k.prior})
	}
}

// unsent is an entry before a save of "sent" that failed and may have had its effect. The
// mutation was not sent, and only this process knows it.
type unsent struct {
	nonce string
	state store.State
	data  entryData
}

// undoUnsent restores the loaded entry if it has the effect of a failed save of this process.
func (k *keyedCall) undoUnsent() {
	if u, ok := k.unsent.Load(k.entry.Key); ok && u.(unsent).nonce == k.data.Send.Nonce {
		// Another process may have seen the number: it is not used again.
		number, all := k.data.Send.Number, k.data.History
		k.entry.State, k.data = u.(unsent).state, u.(unsent).data
		last := &all[len(all)-1]
		last.State, last.Why = k.entry.State, notSent
		k.data.Send.Number, k.data.History = number, all
	}
}

// checkBefore takes the lock and makes the check before the send. It adds the records of the last
// mutations of the lock, which late reads may not show.
//
// If another mutation then takes the lock, this entry's revision changes and the send is aborted.
// Otherwise the check could be older than the effect of the other mutation, and take that effect
// for its own.
func (k *keyedCall) checkBefore(ctx context.Context) error {
	if k.lock != k.entry.Lock {
		if err := k.saveWithLock(ctx, line{State: store.Free}); err != nil {
			return k.unsaved(err)
		}
	}
	var last lockData
	if k.adds() {
		var err error
		if _, last, err = k.effects.recall(ctx, k.lock); err != nil {
			return k.unsaved(err)
		}
	}
	before, err := checks[k.row.reads].read(ctx, k.target)
	if err != nil {
		return k.refuse(Error{kind: errCheckBefore, cause: err})
	}
	before = before.including(last.Effects)
	if len(last.Effects) > 0 && k.row.reads == readsWithdrawals {
		before.State = "" // the balance may not show the last withdrawal yet: the count decides
	}
	k.data.Send.Before = &before
	return nil
}

// record saves the outcome of a send, and returns the error of the call: err, or [ErrStore] if
// the store fails after a success.
func (k *keyedCall) record(ctx context.Context, answer *lending.Response, err error) error {
	failed, _ := errors.AsType[*lending.Error](err)
	switch k.outcome = lending.OutcomeOf(err); k.outcome {
	case lending.OutcomeNotSent, lending.OutcomeRejected:
		k.data.Send.Open = k.prior.Send.Open
		isGateways := errors.Is(err, verdict.ErrGateway)
		switch {
		case isGateways:
			k.data.Doubt.Refused = max(k.data.Doubt.Refused, 1) // from now on
		case k.outcome == lending.OutcomeRejected:
			k.data.Doubt.Refused = 0
		}
		if failed != nil && k.inDoubt {
			k.rejected(failed)
		}
		if isGateways && k.canCheck() {
			// The gateway may have replaced the response to a mutation that happened.
			_ = k.saveRetrying(ctx, recordLimit, line{State: store.InDoubt, Why: failure(err)})
		} else {
			_ = k.undo(ctx, recordLimit, failure(err))
		}
		if isGateways && k.data.Doubt.Refused >= k.MaxLateness {
			refused := k.refuse(Error{kind: errGateway, cause: err})
			refused.Outcome = failed.Outcome
			return refused
		}
	case lending.OutcomeUnknown:
		if failed != nil && k.isRepeatable() {
			failed.RetryAfter = max(failed.RetryAfter, k.data.pause(k.MaxLateness))
		}
		_ = k.saveRetrying(ctx, recordLimit, line{State: store.InDoubt, Why: failure(err)})
	case lending.OutcomeDone:
		state := k.keep(answer)
		if k.adds() && k.effects.remember(ctx, k.lock, k.data.effect(k.data.Response.Body)) != nil {
			k.data.Hold = max(k.data.Hold, k.MaxLateness) // the lock replaces the remembered records
		}
		if failed := k.saveRetrying(ctx, recordLimit, line{State: state, Why: failure(err)}); failed != nil {
			return k.refuse(Error{kind: ErrStore, cause: failed})
		}
	}
	return err
}

// canCheck reports whether a check can tell whether the last send happened.
func (k *keyedCall) canCheck() bool {
	return k.check != nil || k.row.cannotTell(&k.data.Send) == ""
}

// rejected corrects the error of a rejected resend: an earlier send may have succeeded, or did
// succeed.
func (k *keyedCall) rejected(failed *lending.Error) {
	switch failed.StatusCode {
	case 0, http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests: // not about the mutation
	default:
		if !errors.Is(failed, verdict.ErrGateway) {
			k.data.Doubt.Rejected++
		}
	}
	failed.Outcome = outcomeOf(&k.data, store.InDoubt)
	failed.RetryAfter = max(failed.RetryAfter, k.data.pause(k.MaxLateness))
}

// keep puts the response of a success into the entry, and returns the next state. If the
// response is lost, the state is in doubt, because the check can rebuild the response.
func (k *keyedCall) keep(answer *lending.Response) store.State {
	k.data.Doubt.Happened, k.data.Send.Open, k.data.Response = true, false, response{}
	fits := answer != nil && (!k.call.NeedsAnswer() || k.call.Accepts(answer))
	if fits {
		k.data.Response = response{Status: answer.StatusCode, Media: answer.Header.Get("Content-Type"), Body: answer.Body}
	}
	if fits && len(answer.Body) > k.MaxAnswer {
		k.data.Response = k.data.Response.withoutPersonalData(k.route)
		fits = k.data.Response.Status != 0 && len(k.data.Response.Body) <= k.MaxAnswer && k.hasAnswer()
	}
	if fits {
		return store.Done
	}
	k.data.Response = response{}
	if !k.call.NeedsAnswer() {
		return store.Forgotten
	}
	return store.InDoubt
}

// undo records that the mutation was not sent, or was rejected. The mutation stays in doubt if
// an earlier send may have succeeded.
func (k *keyedCall) undo(ctx context.Context, limit time.Duration, why string) error {
	if k.inDoubt {
		return k.saveRetrying(ctx, limit, line{State: store.InDoubt, Why: why})
	}
	k.data.Request.Frozen, k.data.Send.Before = k.prior.Request.Frozen, nil
	return k.saveRetrying(ctx, limit, line{State: store.Free, Why: why})
}

// saveRetrying retries the save until limit is over, even after the end of the call's context.
// It stops if another call has recorded the same or more.
func (k *keyedCall) saveRetrying(ctx context.Context, limit time.Duration, now line) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer stop()
	for wait := 20 * time.Millisecond; ; wait *= 2 {
		err := k.save(ctx, k.data.keeps(k.lock, now.State), now)
		if err == nil {
			return nil
		}
		if _, held := errors.AsType[*store.LockedError](err); held && k.data.Hold > 0 { // another mutation has the lock
			k.data.Hold = 0
			continue
		}
		if errors.Is(err, store.ErrConflict) {
			var isRecorded bool
			if isRecorded, err = k.resolveConflict(ctx, now.State); isRecorded {
				return nil
			} else if err == nil {
				continue
			}
		}
		if backoff.Sleep(ctx, wait) != nil {
			return err
		}
	}
}

// resolveConflict handles a conflict in saveRetrying. Either a failed save of this call had its
// effect, or another call has ended the doubt. The sender knows more than the other call, unless
// the other call has found the mutation done.
func (k *keyedCall) resolveConflict(ctx context.Context, state store.State) (isRecorded bool, err error) {
	entry, other, err := k.read(ctx, k.entry.Key)
	if err != nil {
		return false, err
	}
	if entry.Revision == 0 { // the store has lost the entry
		k.entry.Revision = 0
		return false, nil
	}
	isOurs, succeeded := other.Send.Nonce == k.nonce, k.outcome == lending.OutcomeDone
	switch {
	case entry.State == store.Done, other.Erased, entry.State == store.Forgotten && state != store.Done:
		return true, nil
	case succeeded && !isOurs: // another call has resent the mutation
		k.data.Hold = max(k.data.Hold, other.Send.Lease+k.MaxLateness)
		fallthrough
	case succeeded, isOurs && state == store.Free:
		k.entry.Revision, k.entry.Age, k.loaded = entry.Revision, entry.Age, time.Now()
		k.data.History = other.History
		return false, nil
	}
	return true, nil
}

// failure describes the end of a send in a history.
func failure(err error) string {
	failed, ok := errors.AsType[*lending.Error](err)
	switch {
	case errors.Is(err, verdict.ErrGateway):
		return "a gateway responded with " + strconv.Itoa(failed.StatusCode)
	case ok && failed.StatusCode != 0:
		return "the service responded with " + strconv.Itoa(failed.StatusCode)
	case ok:
		err = failed.Unwrap()
	}
	if err == nil {
		return ""
	}
	return redact.Describe(err)
}
