package idempotency

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"errors"
	"maps"
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

// maxTurns is the number of times a call starts again after a conflict.
const maxTurns = 8

type keyedCall struct {
	*settings
	keyOptions
	call   *lending.MutationCall
	route  string // the method and path template
	row    route
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

	makesReview bool // this call has recorded that the key needs a review
}

// Do implements [lending.Idempotency]. The client calls Do for each mutation with a key.
func (l *Log) Do(ctx context.Context, key string, call *lending.MutationCall, send func(context.Context) (*lending.Response, error)) (*lending.Response, error) {
	s := l.settings()
	k := &keyedCall{settings: s, keyOptions: optionsFor(ctx, key), call: call}
	k.target = &target{client: call.Client(), ids: idsOf(call), body: call.Body()}
	k.route = call.Method() + " " + call.Route()
	if !call.IsRaw() { // else the body can be anything
		k.row = rowOf(k.route)
		k.lock = s.lockFor(k.row, k.target.ids)
		k.safeToRepeat = k.safeToRepeat || s.repeats(k.route)
	}
	if s.serves(call.Account()) {
		s.clients.LoadOrStore(call.Account(), call.Client())
	}
	answer, err := k.turns(ctx)
	if err == nil && answer == nil {
		err = k.begin(ctx)
	}
	switch {
	case err != nil:
		k.call.Observe(ctx, ActionRefused, k.news(ctx, err))
		return nil, err
	case answer != nil:
		return answer, nil
	}
	k.call.Observe(ctx, ActionSent, nil)
	answer, err = send(ctx)
	return answer, k.record(ctx, answer, err)
}

// news returns err, or nil if another call reports the mutation: the call that is sending it, or that has
// reported its review, in any process.
func (k *keyedCall) news(ctx context.Context, err error) error {
	isReview := k.entry.State == store.NeedsReview && (errors.Is(err, ErrNeedsReview) || errors.Is(err, ErrAnswerLost))
	switch {
	case errors.Is(err, ErrPaused) && k.look.told.Swap(true): // a process reports a pause once
		return nil
	case errors.Is(err, ErrInProgress), errors.Is(err, ErrLocked):
		return nil
	case !isReview || k.makesReview:
		return err
	case k.data.Doubt.Told:
		return nil
	}
	k.data.Doubt.Told = true // Check or the call of another key has made the review
	if errors.Is(k.save(ctx, k.entry.Lock, line{State: store.NeedsReview}), store.ErrConflict) {
		return nil
	}
	return err
}

// turns repeats turn while other calls change the entry. It returns the recorded response, or
// nil if "sent" is recorded and the caller must send the mutation.
func (k *keyedCall) turns(ctx context.Context) (*lending.Response, error) {
	for range maxTurns {
		if answer, err := k.turn(ctx); !errors.Is(err, store.ErrConflict) {
			return answer, err
		}
	}
	return nil, k.refuse(Error{kind: ErrInProgress, RetryAfter: time.Second})
}

func (k *keyedCall) turn(ctx context.Context) (_ *lending.Response, err error) {
	k.entry, k.data, err = k.read(ctx, k.stored(k.key))
	k.loaded = time.Now()
	if err != nil {
		return nil, k.unsaved(err)
	}
	k.undoUnsent()
	if err := k.isSame(ctx); err != nil {
		return nil, err
	}
	if k.entry.State == store.Sent && k.nonce == k.data.Send.Nonce { // an earlier turn of this call has saved the entry
		return nil, nil
	}
	if k.inDoubt = false; k.entry.State != store.Done && k.entry.State != store.Forgotten {
		if err := k.presume(ctx); err != nil {
			return nil, err
		}
	}
	idle := k.data.idle(&k.entry)
	switch k.entry.State {
	case store.Free:
		return nil, k.prepare(ctx, "")
	case store.Done, store.Forgotten:
		if k.hasAnswer() {
			if err := k.rely(ctx); err != nil {
				return nil, err
			}
			return k.replay(ctx, ActionReplayed)
		}
		k.data.Doubt.Happened = true
	case store.Sent:
		if idle < 0 {
			return nil, k.refuse(Error{kind: ErrInProgress, RetryAfter: -idle})
		}
	case store.InDoubt, store.NeedsReview:
	}
	return k.endDoubt(ctx, idle)
}

// isSame returns an error if another request, or a request of another account, has used the key.
func (k *keyedCall) isSame(ctx context.Context) error {
	r := &k.data.Request
	if k.data.Erased {
		return k.refuse(Error{kind: ErrErased})
	}
	if !r.Frozen {
		*r = request{
			Route: k.route, CheckWith: k.call.CheckWith(), Account: k.call.Account(), Salt: rand.Text(), IDs: k.target.ids.kept(),
		}
	}
	account := k.call.Account()
	switch {
	case !k.serves(account):
		return k.refuse(Error{kind: ErrOtherAccount, Why: oneAccount})
	case !k.isOf(r.Account, account):
		return k.refuse(Error{kind: ErrOtherAccount})
	}
	r.Account = account
	k.changed = nil
	if k.entry.State == store.Done && k.isAccepted() { // the file of an upload may no longer exist
		return nil
	}
	fingerprint, err := k.call.Fingerprint(ctx, []byte(r.Salt))
	if err != nil {
		return k.refuse(Error{kind: errFingerprint, cause: err})
	}
	if !r.Frozen {
		r.Fingerprint, r.Who = fingerprint, k.target.who(r.Salt)
	}
	switch isSame := hmac.Equal(fingerprint, r.Fingerprint); {
	case r.Route == k.route && isSame:
		return nil
	case k.isAccepted():
		k.changed = fingerprint
		return nil
	}
	refused := k.refuse(Error{kind: ErrKeyReused, Why: firstRequest[k.data.outcome(k.entry.State)]})
	refused.CheckWith = r.CheckWith
	return refused
}

// isAccepted reports whether AcceptRecorded applies: the requests name the same records.
func (k *keyedCall) isAccepted() bool {
	r := &k.data.Request
	return k.acceptsRecorded && r.Route == k.route && maps.Equal(r.IDs, k.target.ids) && bytes.Equal(r.Who, k.target.who(r.Salt))
}

// firstRequest describes the outcome of the first request with a key.
var firstRequest = map[lending.Outcome]string{
	lending.OutcomeDone: "the first request happened", lending.OutcomeUnknown: "the first request may have happened",
	lending.OutcomeNotSent: "the first request did not happen",
}

// unsaved returns the error of a call after a failed save. The error wraps [store.ErrConflict],
// after which the call starts again.
func (k *keyedCall) unsaved(err error) error {
	if err == nil {
		return nil
	}
	return k.refuse(Error{kind: ErrStore, cause: err})
}

// rely records the end of the time for corrections of a person's verdict. The verdict about a
// customer is checked here: [Log.Resolve] does not know the e-mail address.
func (k *keyedCall) rely(ctx context.Context) error {
	if !k.data.isCorrectable() {
		return nil
	}
	if k.row.byEmail && k.check == nil {
		after, err := k.row.check(ctx, k.target)
		idle := k.data.idle(&k.entry)
		switch isRight := err == nil && k.row.agrees(after, k.data.Response.Body, nil); {
		case isRight, lending.OutcomeOf(err) == lending.OutcomeRejected: // the check can tell nothing more
		case err != nil, idle < k.MaxLateness:
			return k.refuse(Error{kind: ErrInDoubt, Why: notShown + " yet", cause: err, RetryAfter: recheck(idle, k.MaxLateness)})
		default:
			k.data.Response = response{}
			return k.needReview(ctx, "the verdict named another record: "+notShown)
		}
	}
	now := line{State: k.entry.State, Why: "a call has relied on the verdict"}
	return k.unsaved(k.save(ctx, k.data.keeps(k.entry.Lock, now.State), now))
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

func (k *keyedCall) replay(ctx context.Context, action string) (*lending.Response, error) {
	if !k.hasAnswer() {
		return nil, k.refuse(Error{kind: ErrAnswerLost})
	}
	if k.data.Response.Rebuilt {
		action = ActionRebuilt
	}
	answer := k.answer()
	answer.Header.Set(header, action)
	k.call.Observe(ctx, action, nil)
	return answer, nil
}

// present returns the entry with its present age.
func (k *keyedCall) present() *store.Entry {
	entry := k.entry
	entry.Age += time.Since(k.loaded)
	return &entry
}

func (k *keyedCall) save(ctx context.Context, lock string, now line) error {
	unsaved, data := k.data, &k.data
	data.change(k.present(), now)
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

// refuse returns the error of a call without a send.
func (k *keyedCall) refuse(why Error) *lending.Error {
	why.Key = k.key
	if failed, ok := errors.AsType[*lending.Error](why.cause); ok {
		why.RetryAfter = max(why.RetryAfter, failed.RetryAfter)
	}
	why.cause = redact.Hide(why.cause)
	outcome := k.data.outcome(k.entry.State)
	if outcome == lending.OutcomeDone && (errors.Is(why.kind, ErrInDoubt) || errors.Is(why.kind, ErrNeedsReview)) {
		why.kind = ErrAnswerLost
	}
	e := k.call.Error(&why)
	if e.Outcome = outcome; errors.Is(why.kind, ErrOtherAccount) && k.entry.State != store.Free {
		e.Outcome = lending.OutcomeUnknown // both addresses can lead to the same service
	}
	e.RetryAfter = max(e.RetryAfter, why.RetryAfter)
	return e
}
