package idempotency

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/redact"
)

// The values of [lending.Call].Idempotency.
const (
	ActionSent     = "sent"     // the log sent the mutation
	ActionReplayed = "replayed" // the log returned the recorded response
	ActionRebuilt  = "rebuilt"  // the log returned a response from a check or a [Verdict]
	ActionRefused  = "refused"  // the log did not send the mutation
	ActionCheck    = "check"    // the log made a read of a check
)

type keyedCall struct {
	*settings
	keyOptions
	call   *lending.MutationCall
	route  string      // the method and path template
	row    route       // this field and the next two: see aim
	target *target     // the input of the checks
	lock   string      // the hash of the lock; "" for no lock
	entry  store.Entry // the last loaded or saved entry
	data   entryData   // the data of the entry, with the changes of this call
	loaded time.Time   // the time of the last load or save

	nonce   string // identifies the send
	prior   entryData
	inDoubt bool            // an earlier send may have succeeded
	changed []byte          // the fingerprint of a request that differs from the recorded request; else nil
	outcome lending.Outcome // the outcome of the send

	isUnknown bool // the store may have lost a send, or the log has not read yet whether it may: see [Log.Restored]
}

// hasAnswer reports whether the entry has the response, or the method needs none.
func (k *keyedCall) hasAnswer() bool {
	status := k.data.Response.Status
	return !k.call.NeedsAnswer() || status == noResponse.Status || status != 0 && k.call.Accepts(k.answer())
}

func (k *keyedCall) answer() *lending.Response {
	r := &k.data.Response
	answer := &lending.Response{StatusCode: cmp.Or(r.Status, http.StatusOK), Header: http.Header{}, Body: r.Body}
	answer.Header.Set("Content-Type", r.Media)
	return answer
}

// header marks a recorded or rebuilt response in the [lending.Response] of
// [lending.CaptureResponse].
const header = "Lending-Idempotency"

func (k *keyedCall) replay(ctx context.Context, action string) *lending.Response {
	if k.data.Response.Rebuilt {
		action = ActionRebuilt
	}
	answer := k.answer()
	answer.Header.Set(header, action)
	k.call.Observe(ctx, action, nil)
	return answer
}

func (k *keyedCall) save(ctx context.Context, lock string, now line) error {
	unsaved, data, from := k.data, &k.data, k.entry
	from.Age += time.Since(k.loaded)
	data.change(&from, now)
	next := data.next(&k.entry, now.State, lock)
	if err := k.store.Save(ctx, next); err != nil {
		k.data = unsaved
		return err
	}
	k.unsent.Delete(next.Key)
	next.Revision++
	k.entry, k.loaded = next, time.Now()
	return nil
}

// unsaved returns the error of a call after a failed save, unless err is that of a call already. The error
// wraps [store.ErrConflict], after which the call starts again.
func (k *keyedCall) unsaved(err error) error {
	if _, isRefused := errors.AsType[*lending.Error](err); isRefused || err == nil {
		return err
	}
	return k.refuse(Error{kind: ErrStore, cause: err})
}

// refuse returns the error of a call without a send.
func (k *keyedCall) refuse(why Error) *lending.Error {
	why.Key = k.key
	if failed, ok := errors.AsType[*lending.Error](why.cause); ok {
		why.RetryAfter = max(why.RetryAfter, failed.RetryAfter)
	}
	why.cause = redact.Hide(why.cause)
	outcome := outcomeOf(&k.data, k.entry.State)
	if outcome == lending.OutcomeNotSent && k.isUnknown {
		outcome = lending.OutcomeUnknown
	}
	if outcome == lending.OutcomeDone && (errors.Is(why.kind, ErrInDoubt) || errors.Is(why.kind, ErrNeedsReview)) {
		why.kind = ErrAnswerLost
	}
	e := k.call.Error(&why)
	if e.Outcome = outcome; errors.Is(why.kind, ErrOtherAccount) && k.entry.State != store.Free {
		e.Outcome = lending.OutcomeUnknown // both addresses can lead to the same service
	}
	if !why.inFlight {
		e.RetryAfter = max(e.RetryAfter, why.RetryAfter)
	}
	return e
}

// adds reports whether the next mutation of the lock needs the new records of this mutation.
func (k *keyedCall) adds() bool { return k.row.adds && k.lock != "" }

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
