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

// What the log did with a call: see [lending.Call].Idempotency.
const (
	ActionSent     = "sent"     // the mutation was sent
	ActionReplayed = "replayed" // it had happened: the recorded answer was returned
	ActionRebuilt  = "rebuilt"  // it had happened: an answer from a check or a [Verdict] was returned
	ActionRefused  = "refused"  // it was not sent, for a reason of the log
	ActionCheck    = "check"    // a read before a mutation, or one that tells whether it happened
)

const (
	// recordLimit is how long a store may take to record an outcome, trying again.
	recordLimit = 10 * time.Second
	// reserved is how long a mutation that is checked before it is sent has the lock to itself.
	reserved = 10 * time.Second
	// maxTurns is how often a call begins again because another has changed the entry.
	maxTurns = 8
)

// keyedCall is the way of a mutation with a key through the log.
type keyedCall struct {
	settings
	keyOptions
	call   *lending.MutationCall
	route  string // its name
	row    route
	about  *target     // once it is asked for
	lock   string      // that it takes, hashed; "" for none
	entry  store.Entry // as it was loaded or saved last
	data   entryData   // of the entry, as this call changes it
	loaded time.Time   // or saved
	nonce  string      // of the send of this call
	left   bool        // the Left of data before the send
	doubt  bool        // it was sent before, and nothing shows that it did not happen then

	wasOpen  bool // the Open of data before the send
	happened bool // says the answer to this call

	changed []byte // the fingerprint of the request, if it differs from the one that has left; or nil
}

// Do makes the mutation that key names happen once: it is the method of
// [lending.Idempotency], which a client calls.
func (l *Log) Do(ctx context.Context, key string, call *lending.MutationCall, send func(context.Context) (*lending.Response, error)) (*lending.Response, error) {
	s, err := l.settings()
	if err != nil {
		return nil, err
	}
	k := &keyedCall{settings: s, keyOptions: optionsFor(ctx, key), call: call, route: routeName(call)}
	k.row = routeOf(call, k.route)
	k.lock = s.lockFor(k.row, call)
	s.clients.LoadOrStore(call.Account(), call.Client())
	answer, err := k.turns(ctx)
	switch {
	case err != nil:
		k.call.Observe(ctx, ActionRefused, err)
		return nil, err
	case answer != nil:
		return answer, nil
	}
	k.call.Observe(ctx, ActionSent, nil)
	answer, err = send(ctx)
	return answer, k.record(ctx, answer, err)
}

// target returns what the checks read.
func (k *keyedCall) target() *target {
	if k.about == nil {
		k.about = targetOf(k.call)
	}
	return k.about
}

// turns takes turns until nobody else has changed the entry meanwhile. It returns the
// recorded answer, or nothing if the mutation is to be sent, now that this is written down.
func (k *keyedCall) turns(ctx context.Context) (*lending.Response, error) {
	for range maxTurns {
		var answer *lending.Response
		err := k.load(ctx)
		if err == nil {
			answer, err = k.turn(ctx)
		}
		if !errors.Is(err, store.ErrConflict) {
			return answer, err
		}
	}
	return nil, k.refuse(Error{kind: ErrInProgress, RetryAfter: time.Second})
}

// load gets the entry of the key, a free one if there is none.
func (k *keyedCall) load(ctx context.Context) error {
	k.entry, k.data = store.Entry{}, entryData{}
	entry, err := k.store.Load(ctx, k.stored(k.key))
	k.loaded = time.Now()
	if err == nil && entry != nil {
		k.data, err = readData(entry.Data)
	}
	switch {
	case err != nil:
		return k.refuse(Error{kind: ErrStore, cause: err})
	case entry == nil:
		k.entry = store.Entry{Key: k.stored(k.key), State: store.Free}
	default:
		k.entry = *entry
	}
	return nil
}

// turn does what the state of the entry asks for.
func (k *keyedCall) turn(ctx context.Context) (*lending.Response, error) {
	if err := k.isSame(ctx); err != nil {
		return nil, err
	}
	if k.entry.State == store.Sent && k.nonce == k.data.Nonce { // the store has told this call of its own save
		return nil, nil
	}
	k.doubt = false
	idle := k.data.idle(&k.entry)
	switch k.entry.State {
	case store.Free:
		return nil, k.prepare(ctx)
	case store.Done, store.Forgotten:
		if k.hasAnswer() {
			if err := k.rely(ctx); err != nil {
				return nil, err
			}
			return k.replay(ctx, ActionReplayed)
		}
		k.data.Happened = true
	case store.Sent:
		if idle < 0 {
			return nil, k.refuse(Error{kind: ErrInProgress, RetryAfter: -idle})
		}
	case store.InDoubt, store.NeedsReview:
	}
	return k.endDoubt(ctx, idle)
}

// isSame refuses the request if one that differs from it, or one to another service or
// account, has left under its key.
func (k *keyedCall) isSame(ctx context.Context) error {
	if !k.data.Left { // there is none, or it may be corrected
		k.data = entryData{Route: k.route, CheckWith: k.call.CheckWith(), Account: k.call.Account(), Salt: rand.Text(), IDs: k.target().ids.kept()}
	}
	if k.data.Account != k.call.Account() {
		return k.refuse(Error{kind: ErrOtherAccount})
	}
	k.changed = nil
	if k.entry.State == store.Done && k.isAccepted() { // an upload may be gone by now
		return nil
	}
	fingerprint, err := k.call.Fingerprint(ctx, []byte(k.data.Salt))
	if err != nil {
		return k.refuse(Error{kind: errFingerprint, cause: err})
	}
	if !k.data.Left {
		k.data.Fingerprint, k.data.Who = fingerprint, k.target().who(k.data.Salt)
	}
	switch isSame := hmac.Equal(fingerprint, k.data.Fingerprint); {
	case k.data.Route == k.route && isSame:
		return nil
	case k.isAccepted():
		k.changed = fingerprint
		return nil
	}
	refused := k.refuse(Error{kind: ErrKeyReused, Why: k.fate()})
	refused.CheckWith = k.data.CheckWith
	return refused
}

// isAccepted reports whether the recorded answer will do for another request about the same records.
func (k *keyedCall) isAccepted() bool {
	return k.acceptsRecorded && k.data.Route == k.route && maps.Equal(k.data.IDs, k.target().ids) &&
		bytes.Equal(k.data.Who, k.target().who(k.data.Salt))
}

// fate says what is known of the request that a key belongs to.
func (k *keyedCall) fate() string {
	switch {
	case k.entry.State == store.Free:
		return "the first request did not happen"
	case isInDoubt(k.entry.State) && !k.data.Happened:
		return "the first request may have happened"
	}
	return "the first request happened"
}

// prepare writes down that the mutation is sent, when the check before it is done.
func (k *keyedCall) prepare(ctx context.Context) error {
	// A sign-in that fails, a person who is asked, or a secret that is missing, comes before "sent".
	if err := k.call.GetToken(ctx); err != nil && k.entry.State == store.Free {
		return err
	} else if err != nil {
		return k.refuse(Error{kind: ErrInDoubt, cause: err})
	}
	if k.row.check != nil && k.data.Before == nil && k.check == nil {
		if err := k.reserve(ctx); err != nil {
			return err
		}
		if err := k.checkBefore(ctx); err != nil {
			return err
		}
	}
	if k.adds() {
		k.data.Adds = k.row.leaves(k.call, k.data.Before)
	}
	deadline, _ := ctx.Deadline()
	k.left = k.data.Left
	k.nonce = rand.Text()
	k.data.Left, k.data.Nonce, k.data.Lease = true, k.nonce, time.Until(deadline)
	k.wasOpen, k.data.Open = k.data.Open, true
	k.data.Sends++
	k.data.Own = k.safeToRepeat || k.check != nil
	if k.changed != nil {
		k.data.Fingerprint = k.changed
	}
	err := k.save(ctx, store.Sent, k.lock)
	held, isHeld := errors.AsType[*store.LockedError](err)
	switch {
	case err == nil, errors.Is(err, store.ErrConflict):
		return err
	case isHeld:
		return k.release(ctx, held.Key)
	}
	failed := k.refuse(Error{kind: ErrStore, cause: err})
	k.free(ctx, time.Second) // it may be written down all the same
	return failed
}

// checkBefore makes the check before the mutation. It believes no view that is older than what
// the last mutation of the lock has left.
func (k *keyedCall) checkBefore(ctx context.Context) error {
	var last *snapshot
	if k.adds() {
		var err error
		if _, last, err = k.recall(ctx, k.lock); err != nil {
			return k.unsaved(err)
		}
	}
	before, err := k.row.check(ctx, k.target())
	if err != nil {
		return k.refuse(Error{kind: errCheckBefore, cause: err})
	}
	before = before.since(last)
	k.data.Before = &before
	return nil
}

// unsaved is the error of a call that could not write down what it has found out, nil for
// nil. It wraps a conflict, after which the call begins anew.
func (k *keyedCall) unsaved(err error) error {
	if err == nil {
		return nil
	}
	return k.refuse(Error{kind: ErrStore, cause: err})
}

// header marks, in the [lending.Response] of [lending.CaptureResponse], an answer that has
// not just come from the service.
const header = "Lending-Idempotency"

// rely writes down that the verdict of a person can no longer be corrected.
func (k *keyedCall) rely(ctx context.Context) error {
	if k.data.Verdict == nil {
		return nil
	}
	lock := ""
	if k.data.Hold > 0 {
		lock = k.entry.Lock
	}
	return k.unsaved(k.save(ctx, k.entry.State, lock))
}

// hasAnswer reports whether the entry has an answer that the method accepts, or needs none.
func (k *keyedCall) hasAnswer() bool {
	return !k.call.NeedsAnswer() || k.data.Status != 0 && k.call.Accepts(k.answer())
}

// answer returns the recorded answer.
func (k *keyedCall) answer() *lending.Response {
	answer := &lending.Response{StatusCode: cmp.Or(k.data.Status, http.StatusOK), Header: http.Header{}, Body: k.data.Answer}
	answer.Header.Set("Content-Type", k.data.Media)
	return answer
}

// replay returns the recorded answer.
func (k *keyedCall) replay(ctx context.Context, action string) (*lending.Response, error) {
	if !k.hasAnswer() {
		return nil, k.refuse(Error{kind: ErrAnswerLost})
	}
	if k.data.Rebuilt {
		action = ActionRebuilt
	}
	answer := k.answer()
	answer.Header.Set(header, action)
	k.call.Observe(ctx, action, nil)
	return answer, nil
}

// save writes the data down.
func (k *keyedCall) save(ctx context.Context, state store.State, lock string) error {
	unsaved, data := k.data, &k.data
	from := k.entry
	from.Age += time.Since(k.loaded)
	data.wait(&from, state)
	data.Verdict = nil
	if state == store.Done || state == store.Forgotten {
		data.drop()
	}
	next := store.Entry{Key: k.entry.Key, Revision: k.entry.Revision, State: state, Lock: lock, Data: data.bytes()}
	if err := k.store.Save(ctx, next); err != nil {
		k.data = unsaved
		return err
	}
	next.Revision++
	k.entry, k.loaded = next, time.Now()
	return nil
}

// refuse returns the error of a mutation that is not sent now.
func (k *keyedCall) refuse(why Error) *lending.Error {
	why.Key = k.key
	if failed, ok := errors.AsType[*lending.Error](why.cause); ok {
		why.RetryAfter = max(why.RetryAfter, failed.RetryAfter)
	}
	why.cause = redact.Hide(why.cause)
	happened := k.data.Happened || k.entry.State == store.Done || k.entry.State == store.Forgotten
	if happened && (errors.Is(why.kind, ErrInDoubt) || errors.Is(why.kind, ErrNeedsReview)) {
		why.kind = ErrAnswerLost
	}
	e := k.call.Error(&why)
	switch {
	case e.StatusCode != 0: // of this call: it was sent
	case errors.Is(why.kind, ErrOtherAccount) && k.entry.State != store.Free:
		e.Outcome = lending.OutcomeUnknown // the other service can be this one, at another address
	case happened, errors.Is(why.kind, ErrAnswerLost):
		e.Outcome = lending.OutcomeDone
	case k.entry.State == store.Free:
		e.Outcome = lending.OutcomeNotSent
	default:
		e.Outcome = lending.OutcomeUnknown
	}
	e.RetryAfter = max(e.RetryAfter, why.RetryAfter)
	return e
}
