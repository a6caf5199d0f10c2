package idempotency

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"errors"
	"maps"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/transport"
)

// Do implements [lending.Idempotency]. The client calls Do for each mutation with a key.
func (l *Log) Do(ctx context.Context, key string, call *lending.MutationCall, send func(context.Context) (*lending.Response, error)) (*lending.Response, error) {
	s := l.settings()
	k := &keyedCall{settings: s, keyOptions: optionsFor(ctx, key), call: call, route: call.Method() + " " + call.Route()}
	if s.serves(call.Account()) {
		s.clients.LoadOrStore(call.Account(), call.Client())
	}
	answer, err := k.turns(ctx)
	switch {
	case err != nil:
		logged := err
		isUsual := errors.Is(err, ErrInProgress) || errors.Is(err, ErrLocked) // beside another replica
		if isUsual || errors.Is(err, ErrNeedsReview) && k.entry.Age > reviewIsNews {
			logged = nil
		}
		k.call.Observe(ctx, ActionRefused, logged)
		return nil, err
	case answer != nil:
		return answer, nil
	}
	k.call.Observe(ctx, ActionSent, nil)
	var why *Error
	answer, err = send(transport.WithPermission(ctx, func() (before time.Time, _ error) {
		if before, why = k.permission(ctx); why != nil {
			return before, why
		}
		return before, nil
	}))
	if why != nil && lending.OutcomeOf(err) == lending.OutcomeNotSent {
		err = k.withhold(ctx, *why)
		k.call.Observe(ctx, ActionRefused, err)
		return nil, err
	}
	return answer, k.record(ctx, answer, err)
}

// aim sets the fields that a replay of a recorded response does not need.
func (k *keyedCall) aim() {
	body := k.call.Body()
	k.target = k.targetOf(k.call.Client(), idsOf(k.call, body))
	k.target.body = body
	if k.call.IsRaw() { // the body can be anything
		return
	}
	k.row = rowOf(k.route)
	if lock := k.row.lockFor(k.target.ids); lock != "" {
		k.lock = hashed(k.stored(lock))
	}
	k.safeToRepeat = k.safeToRepeat || k.repeats(k.route)
}

// reviewIsNews is how long the calls of a key in review are logged as warnings. Two passes of package orders
// fall into this time.
const reviewIsNews = 2 * time.Minute

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
	if k.entry.State == store.Sent {
		k.undoUnsent()
	}
	if k.entry.State == store.Sent && k.nonce == k.data.Send.Nonce { // an earlier turn of this call has saved the entry
		return nil, nil
	}
	isRecorded := hasHappened(k.entry.State) && k.hasAnswer()
	if !isRecorded || k.acceptsRecorded || k.data.isCorrectable() || !k.data.Request.Frozen { // the last: a damaged entry
		k.aim()
	}
	var restored *restore
	k.inDoubt, k.isUnknown = false, !hasHappened(k.entry.State)
	if k.isUnknown {
		if restored, err = k.restart(ctx, &k.entry, &k.data); err != nil {
			return nil, k.unsaved(err)
		}
		k.isUnknown = restored != nil
	}
	if err := k.isSame(ctx); err != nil {
		return nil, err
	}
	if restored != nil && k.entry.State == store.Free {
		if err := k.doubtAfterRestore(ctx, restored); err != nil {
			return nil, err
		}
	}
	k.isUnknown = false
	idle := k.data.idle(&k.entry)
	switch k.entry.State {
	case store.Free:
		return nil, k.prepare(ctx, "")
	case store.Done, store.Forgotten:
		if isRecorded {
			if err := k.useVerdict(ctx); err != nil {
				return nil, err
			}
			return k.replay(ctx, ActionReplayed), nil
		}
		k.data.Doubt.Happened = true
	case store.Sent:
		if idle < 0 {
			return nil, k.refuse(Error{kind: ErrInProgress, RetryAfter: -idle, inFlight: true})
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
	if !k.serves(account) {
		return k.refuse(Error{kind: ErrOtherAccount, Why: oneAccount})
	}
	switch owns, err := k.owns(ctx, account, r.Account); {
	case err != nil:
		return k.unsaved(err)
	case !owns && k.isOf(r.Account, account):
		return k.refuse(Error{kind: ErrOtherAccount, Why: twoHeirs})
	case !owns:
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
	isSame := hmac.Equal(fingerprint, r.Fingerprint)
	if !isSame {
		former, err := k.call.FormerFingerprint(ctx, []byte(r.Salt))
		isSame = err == nil && hmac.Equal(former, r.Fingerprint)
	}
	switch {
	case r.Route == k.route && isSame:
		return nil
	case k.isAccepted():
		k.changed = fingerprint
		return nil
	}
	refused := k.refuse(Error{kind: ErrKeyReused, Why: firstRequest[outcomeOf(&k.data, k.entry.State)]})
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

// useVerdict marks a person's verdict as used: nobody can correct the verdict any more. The verdict about a
// customer is checked here: [Log.Resolve] does not know the e-mail address.
func (k *keyedCall) useVerdict(ctx context.Context) error {
	if !k.data.isCorrectable() {
		return nil
	}
	if k.row.byEmail() && k.check == nil {
		after, err := checks[k.row.reads].read(ctx, k.target)
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
	now := line{State: k.entry.State, Why: "a call has used the verdict"}
	return k.unsaved(k.save(ctx, k.data.keeps(k.entry.Lock, now.State), now))
}

// doubtAfterRestore puts a mutation in doubt that the store lost or did not know yet at the time of its copy.
func (k *keyedCall) doubtAfterRestore(ctx context.Context, o *restore) error {
	if k.entry.Revision == 0 && isNewOrder(ctx, o) {
		return nil
	}
	if isNew, err := k.isNew(ctx, o); isNew || err != nil {
		return err
	}
	k.data.Request.Frozen = true
	k.data.Doubt.Idle = o.Age
	k.data.Send = send{
		Number: max(1, k.data.Send.Number), AfterRestore: true, Open: true, IsCallers: k.safeToRepeat || k.check != nil,
		Adds: records(k.target.body),
	}
	return k.unsaved(k.saveWithLock(ctx, line{State: store.InDoubt, Why: o.Why}))
}

// isNew reports whether the request names a record that a mutation has made after the instruction: such a
// mutation was not sent before. A record that the service does not show is not known as new.
func (k *keyedCall) isNew(ctx context.Context, o *restore) (bool, error) {
	id, err := k.target.owner(ctx)
	if err != nil && lending.OutcomeOf(err) != lending.OutcomeRejected {
		return false, k.refuse(Error{kind: errCheckBefore, cause: err})
	}
	if id == "" {
		return false, nil
	}
	known, err := k.index.about(ctx, id)
	switch {
	case errors.Is(err, errReading):
		return false, k.refuse(stillReading)
	case err != nil:
		return false, k.unsaved(err)
	}
	return known.made[id].newSince == o.ID, nil
}
