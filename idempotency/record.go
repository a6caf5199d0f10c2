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

// record writes down what became of a mutation that was sent, and returns the error of the
// call, which is err unless the store fails.
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
			k.data.Hold = max(k.data.Hold, k.MaxLateness) // so that nobody needs to know it
		}
		if failed := k.insist(ctx, recordLimit, state); failed != nil {
			return k.refuse(Error{kind: ErrStore, cause: failed})
		}
	}
	return err
}

// refused changes the error of a mutation that was sent again and did not get through: an earlier
// send may have succeeded, or has.
func (k *keyedCall) refused(failed *lending.Error) {
	switch failed.StatusCode {
	case 0, http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests: // which say nothing of the mutation
	default:
		k.data.Refused++
	}
	failed.Outcome = lending.OutcomeUnknown
	if k.data.Happened {
		failed.Outcome = lending.OutcomeDone
	}
	failed.RetryAfter = max(failed.RetryAfter, k.pause())
}

// keep puts the answer of a mutation that has happened into the entry, and returns its state: in
// doubt if the answer is lost, since the reads that tell whether it happened can rebuild it.
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

// marksValue reports whether the entry keeps its lock although it is done: whoever forgets the
// answer may set the value again, unless another has taken the lock and set a newer one.
func (k *keyedCall) marksValue(state store.State) bool {
	return state == store.Done && k.row.setsValue && !isScalar(k.data.Answer)
}

func bodyOf(answer *lending.Response) []byte {
	if answer == nil {
		return nil
	}
	return answer.Body
}

// free writes down that the mutation did not leave, or was rejected. That says nothing of an
// earlier send.
func (k *keyedCall) free(ctx context.Context, limit time.Duration) {
	if k.doubt {
		_ = k.insist(ctx, limit, store.InDoubt)
		return
	}
	k.data.Left, k.data.Before = k.left, nil
	_ = k.insist(ctx, limit, store.Free)
}

// insist saves the data, again and again until limit is over, also if the context of the
// call has ended. It gives way to another that knows as much.
func (k *keyedCall) insist(ctx context.Context, limit time.Duration, state store.State) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer stop()
	for wait := 20 * time.Millisecond; ; wait *= 2 {
		lock := "" // of a mutation that has ended, unless it can still be executed late
		if state == store.InDoubt || k.data.Hold > 0 || k.marksValue(state) {
			lock = k.lock
		}
		err := k.save(ctx, state, lock)
		if err == nil {
			return nil
		}
		if _, held := errors.AsType[*store.LockedError](err); held && k.data.Hold > 0 { // too late to hold it
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

// overtake looks at who has changed the entry while the mutation was in flight: this call
// itself, with a save that failed and was done all the same, or another that has ended the
// doubt. The sender knows more than the other, unless the other has found it done.
func (k *keyedCall) overtake(ctx context.Context, state store.State) (known bool, err error) {
	entry, err := k.store.Load(ctx, k.entry.Key)
	if err != nil {
		return false, err
	}
	if entry == nil { // the store has lost it
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
	case k.happened && !ours: // and another has sent it again
		k.data.Hold = max(k.data.Hold, other.Lease+k.MaxLateness)
		fallthrough
	case k.happened, ours && state == store.Free:
		k.entry.Revision = entry.Revision
		return false, nil
	}
	return true, nil
}
