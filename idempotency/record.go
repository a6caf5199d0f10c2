package idempotency

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/backoff"
)

// record saves the outcome of a send, and returns the error of the call: err, or [ErrStore] if
// the store fails after a success.
func (k *keyedCall) record(ctx context.Context, answer *lending.Response, err error) error {
	switch lending.OutcomeOf(err) {
	case lending.OutcomeNotSent, lending.OutcomeRejected:
		k.data.Open = k.wasOpen
		if failed, ok := errors.AsType[*lending.Error](err); ok && k.doubt {
			k.refused(failed)
		}
		k.free(ctx, recordLimit)
	case lending.OutcomeUnknown:
		if failed, ok := errors.AsType[*lending.Error](err); ok && k.isRepeatable() {
			failed.RetryAfter = max(failed.RetryAfter, k.pause())
		}
		_ = k.insist(ctx, recordLimit, store.InDoubt)
	case lending.OutcomeDone:
		state := k.keep(answer)
		if k.adds() && k.remember(ctx, k.lock, k.data.left(bodyOf(answer))) != nil {
			k.data.Hold = max(k.data.Hold, k.MaxLateness) // the lock replaces the remembered records
		}
		if failed := k.insist(ctx, recordLimit, state); failed != nil {
			return k.refuse(Error{kind: ErrStore, cause: failed})
		}
	}
	return err
}

// refused corrects the error of a rejected resend: an earlier send may have succeeded, or did
// succeed.
func (k *keyedCall) refused(failed *lending.Error) {
	switch failed.StatusCode {
	case 0, http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests: // not about the mutation
	default:
		k.data.Refused++
	}
	failed.Outcome = lending.OutcomeUnknown
	if k.data.Happened {
		failed.Outcome = lending.OutcomeDone
	}
	failed.RetryAfter = max(failed.RetryAfter, k.pause())
}

// keep puts the response of a success into the entry, and returns the next state. If the
// response is lost, the state is in doubt, because the check can rebuild the response.
func (k *keyedCall) keep(answer *lending.Response) store.State {
	k.happened, k.data.Happened, k.data.Open = true, true, false
	fits := answer != nil && (!k.call.NeedsAnswer() || k.call.Accepts(answer))
	if fits {
		k.data.Answer, k.data.Status, k.data.Media = answer.Body, answer.StatusCode, answer.Header.Get("Content-Type")
	}
	if fits && len(answer.Body) > k.MaxAnswer {
		k.data.forget()
		fits = k.data.Status != 0 && len(k.data.Answer) <= k.MaxAnswer && k.hasAnswer()
	}
	switch {
	case fits:
		return store.Done
	case !k.call.NeedsAnswer():
		k.data.Answer, k.data.Status = nil, 0
		return store.Forgotten
	}
	k.data.Answer, k.data.Status = nil, 0
	return store.InDoubt
}

// marksValue reports whether a done entry keeps its lock. After [Log.Sweep] a call may set the
// value again to get the response. The lock shows that no other mutation has set a newer value.
func (k *keyedCall) marksValue(state store.State) bool {
	return state == store.Done && k.row.setsValue && !isScalar(k.data.Answer)
}

func bodyOf(answer *lending.Response) []byte {
	if answer == nil {
		return nil
	}
	return answer.Body
}

// free records that the mutation did not leave, or was rejected. The mutation stays in doubt if
// an earlier send may have succeeded.
func (k *keyedCall) free(ctx context.Context, limit time.Duration) {
	if k.doubt {
		_ = k.insist(ctx, limit, store.InDoubt)
		return
	}
	k.data.Left, k.data.Before = k.left, nil
	_ = k.insist(ctx, limit, store.Free)
}

// insist retries the save until limit is over, even after the end of the call's context. It
// stops if another call has recorded the same or more.
func (k *keyedCall) insist(ctx context.Context, limit time.Duration, state store.State) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer stop()
	for wait := 20 * time.Millisecond; ; wait *= 2 {
		lock := "" // an ended mutation frees its lock, unless a late execution is possible
		if state == store.InDoubt || k.data.Hold > 0 || k.marksValue(state) {
			lock = k.lock
		}
		err := k.save(ctx, state, lock)
		if err == nil {
			return nil
		}
		if _, held := errors.AsType[*store.LockedError](err); held && k.data.Hold > 0 { // another mutation has the lock
			k.data.Hold = 0
			continue
		}
		if errors.Is(err, store.ErrConflict) {
			var known bool
			if known, err = k.overtake(ctx, state); known {
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

// overtake handles a conflict in insist. Either a failed save of this call had its effect, or
// another call has ended the doubt. The sender knows more than the other call, unless the other
// call has found the mutation done.
func (k *keyedCall) overtake(ctx context.Context, state store.State) (known bool, err error) {
	entry, err := k.store.Load(ctx, k.entry.Key)
	if err != nil {
		return false, err
	}
	if entry == nil { // the store has lost the entry
		k.entry.Revision = 0
		return false, nil
	}
	other, err := readData(entry.Data)
	if err != nil {
		return false, err
	}
	switch ours := other.Nonce == k.data.Nonce; {
	case entry.State == store.Done, entry.State == store.Forgotten && state != store.Done:
		return true, nil
	case k.happened && !ours: // another call has resent the mutation
		k.data.Hold = max(k.data.Hold, other.Lease+k.MaxLateness)
		fallthrough
	case k.happened, ours && state == store.Free:
		k.entry.Revision = entry.Revision
		return false, nil
	}
	return true, nil
}
