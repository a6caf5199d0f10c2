package idempotency

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/redact"
)

// The reasons why the log does not send a mutation or does not return its response. Use
// errors.Is to test for a reason, and errors.As to get the [*Error].
var (
	// ErrInProgress means: another call with the key may be in flight.
	ErrInProgress error = reasonFor("another call may be sending the mutation", "call again", wait)
	// ErrInDoubt means: the response is lost, and the log does not know yet whether the mutation
	// happened: a check failed, or the service can still execute the mutation.
	ErrInDoubt error = reasonFor("whether the mutation happened is not known yet", "call again", wait)
	// ErrNeedsReview means: the response is lost, and no check can tell whether the mutation
	// happened. [Log.Resolve], [SafeToRepeat] or [WithCheck] decides.
	ErrNeedsReview error = reasonFor("no check can tell whether the mutation happened",
		"a person decides with Log.Resolve", person)
	// ErrLocked means: a mutation with another key, [Error.Held], has the lock. A check could
	// not distinguish the effects of the two mutations.
	ErrLocked error = reasonFor("another mutation must end first",
		"call with that key, or decide with Log.Resolve", wait)
	// ErrAnswerLost means: the mutation happened and the response is lost. If [Error.RetryAfter]
	// is set, a later call may find the response. Otherwise the key needs a review: [Log.Resolve]
	// or [WithCheck] supplies the response. A caller who needs no response can go on.
	ErrAnswerLost error = reasonFor("the mutation happened, but the response is lost",
		"read the data you need, or supply the response with Log.Resolve", person)
	// ErrKeyReused means: an earlier call has sent another request with the key. The outcome is
	// that of the earlier request. Do not use a new key for the mutation unless the outcome is
	// [lending.OutcomeNotSent]. If the change is intended, use [AcceptRecorded].
	ErrKeyReused error = reasonFor("the key belongs to another request",
		"call with the first request, or with AcceptRecorded if the change is intended", lending.Next{})
	// ErrOtherAccount means: an earlier call has used the key with another service (for example
	// a sandbox) or another account. The log does not send the mutation, and does not return the
	// recorded response. If it is the same account with another address, user or name, list the earlier
	// one in [Options.Formerly]. If it is another account, give each its own [Options.Namespace]. If
	// another account has taken over the keys of a former account, remove the former account from Formerly.
	ErrOtherAccount error = reasonFor("the key belongs to another service or account",
		"name the earlier address and user in Options.Formerly if the account is the same; "+
			"a new Options.Namespace is for another account only: it protects none of the keys written before",
		person)
	// ErrErased means: [Log.Erase] has removed the data of the key. The log sends nothing, and has no
	// response. The outcome tells whether the mutation happened.
	ErrErased error = reasonFor("the data of the key was erased", "end the order without this mutation; only another mutation needs a new key",
		lending.Next{})
	// ErrPaused means: the operator has stopped the sends with [Log.Pause]. Error.Why tells who, since
	// when and why. The call sent nothing.
	ErrPaused error = reasonFor("the operator has paused the log", "call again after Log.Resume", wait)
	// ErrStore means: the store failed. If the outcome is [lending.OutcomeDone], the mutation
	// happened, and the next call with the key finds that out.
	ErrStore error = reasonFor("the store of the log failed", "check the store, then call again", lending.Next{Retry: true})
)

var (
	errJustChanged = &reason{
		text: prefix + "the key has just changed, and a loop can still call its mutation", next: wait, of: ErrInProgress,
	}
	errFingerprint = reasonFor("the request cannot be read twice",
		"call again with a request that can be read from its start", lending.Next{Retry: true})
	errGateway = reasonFor("a gateway refuses the mutation", "check the gateway and the address of the service, then call again", person)

	errCheckBefore = reasonFor("the check before the send failed", "call again when that read succeeds", lending.Next{Retry: true})
)

type safe = redact.Safe

var (
	wait   = lending.Next{Retry: true, After: time.Minute} // time or another call ends the doubt
	person = lending.Next{Retry: true, Person: true}
)

// reason is the reason of an [Error], and the next step in words and as a [lending.Next].
type reason struct {
	safe

	text, step string
	next       lending.Next
	of         error // a more general reason; nil for none
}

func reasonFor(text, step string, next lending.Next) *reason {
	return &reason{text: prefix + text, step: "; " + step, next: next}
}

func (r *reason) Error() string { return r.text }

// Unwrap returns a more general reason.
func (r *reason) Unwrap() error { return r.of }

// Next returns the decision for [lending.NextOf].
func (r *reason) Next() lending.Next { return r.next }

// Error tells why the log did not send a mutation or did not return its response. It wraps one
// of [ErrInProgress], [ErrInDoubt], [ErrNeedsReview], [ErrLocked], [ErrAnswerLost],
// [ErrKeyReused], [ErrOtherAccount], [ErrPaused], [ErrErased] and [ErrStore].
type Error struct {
	Key        string        // the key of the mutation; empty for [Log.Pause], and if the store fails outside a call
	Held       string        // with ErrLocked: the key of the other mutation
	Why        string        // details for a person; may be empty
	RetryAfter time.Duration // the longest useful wait before the next call; 0 if unknown

	safe
	kind     error
	cause    error // the hidden error of a store or a check
	inFlight bool  // another call waits for its response, for RetryAfter at most
}

// Error names the key, the reason and the next step.
func (e *Error) Error() string {
	text := prefix
	if e.Key != "" {
		text += fmt.Sprintf("key %q: ", e.Key)
	}
	text += strings.TrimPrefix(e.kind.Error(), prefix)
	if e.Held != "" {
		text += fmt.Sprintf(": locked by key %q", e.Held)
	}
	if e.Why != "" {
		text += ": " + e.Why
	}
	if e.cause != nil {
		text += ": " + redact.Describe(e.cause)
	}
	within := max(e.RetryAfter.Round(time.Second), time.Second)
	if e.inFlight {
		text += fmt.Sprintf("; call again, the other call ends within %v", within)
	} else if e.RetryAfter > 0 {
		text += fmt.Sprintf("; retry after %v", within)
	} else if reason, ok := errors.AsType[*reason](e.kind); ok {
		text += reason.step
	}
	return text
}

const prefix = "lending/idempotency: "

// Format prints [Error.Error] under every verb.
func (e *Error) Format(f fmt.State, verb rune) { _, _ = io.WriteString(f, e.Error()) }

// Next returns the decision for [lending.NextOf]. A retry waits for RetryAfter, or for 1 minute
// if RetryAfter is 0. The wait for a call in flight has no time: the call can end at any moment, and
// a try sends nothing.
func (e *Error) Next() lending.Next {
	next := lending.NextOf(e.kind)
	if errors.Is(e.kind, errCheckBefore) {
		next = lending.NextOf(e.cause)
	}
	if errors.Is(e.kind, ErrStore) {
		next.Person = next.Person || lending.NextOf(e.cause).Person
	}
	if errors.Is(e.kind, ErrAnswerLost) && e.RetryAfter > 0 { // a read may still find the response
		next = wait
	}
	if next.Retry && e.RetryAfter > 0 {
		next.After = e.RetryAfter
	}
	if e.inFlight {
		next.After = 0
	}
	return next
}

// Unwrap returns the reason and the cause. The cause shows no part of a request or a response.
func (e *Error) Unwrap() []error {
	if e.cause == nil {
		return []error{e.kind}
	}
	return []error{e.kind, e.cause}
}

// storeError wraps the error of a store in [ErrStore], for a function without a call.
func storeError(err error) error {
	if err == nil {
		return nil
	}
	return &Error{kind: ErrStore, cause: redact.Hide(err)}
}

// outcomeOf tells whether a mutation in the state happened, as far as its entry knows.
func outcomeOf(d *entryData, state store.State) lending.Outcome {
	switch {
	case d.Doubt.Happened || hasHappened(state):
		return lending.OutcomeDone
	case state == store.Free:
		return lending.OutcomeNotSent
	}
	return lending.OutcomeUnknown // perhaps the entry cannot be read
}
