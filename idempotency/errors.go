package idempotency

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/redact"
)

// Why a mutation with a key was not sent. errors.As finds the [*Error] with it, whose
// RetryAfter says when to call again; [lending.Error].RetryAfter says the same.
var (
	// ErrInProgress means that another call with the key may be in flight.
	ErrInProgress error = reasonFor("another call with the key may be in progress", wait)
	// ErrInDoubt means that the answer of the mutation is lost, and that nobody knows yet
	// whether it happened: a check failed, or the service can still execute it.
	ErrInDoubt error = reasonFor("whether it happened is not known yet", wait)
	// ErrNeedsReview means that the answer of the mutation is lost, and that no check tells
	// whether it happened. [Log.Resolve], [SafeToRepeat] or [WithCheck] decide it.
	ErrNeedsReview error = reasonFor("no check tells whether it happened", lending.Next{Retry: true, Person: true})
	// ErrLocked means that a mutation with another key is in doubt, and that a check could not
	// tell its effect from that of this one. [Error.Held] is its key.
	ErrLocked error = reasonFor("a mutation that would hide its effect is in doubt", wait)
	// ErrAnswerLost means that the mutation has happened and that its answer is not known. If
	// [Error.RetryAfter] is set, a later call may find it. Otherwise [Log.Resolve] or [WithCheck]
	// can give it, and a caller who needs no answer goes on.
	ErrAnswerLost error = reasonFor("it happened, and its answer is not known", lending.Next{Retry: true, Person: true})
	// ErrKeyReused means that an earlier call has used the key for another request, which may
	// have left. The outcome is that of the earlier request. Never send the mutation under a
	// new key unless the outcome is [lending.OutcomeNotSent].
	ErrKeyReused error = reasonFor("it belongs to another request", lending.Next{})
	// ErrOtherAccount means that an earlier call has used the key with another service, for
	// example a sandbox, or with another account. The log neither sends the mutation nor
	// returns the recorded answer. Give each service and account its own [Options.Namespace].
	ErrOtherAccount error = reasonFor("it belongs to another service or account", lending.Next{})
	// ErrStore means that the store of the log failed. If the outcome is
	// [lending.OutcomeDone], the mutation has happened, and the next call with the key
	// finds that out.
	ErrStore error = reasonFor("the store of the log failed", lending.Next{Retry: true})
)

var (
	errFingerprint = reasonFor("the request cannot be read twice", lending.Next{Retry: true})
	errCheckBefore = reasonFor("the check before the mutation failed", lending.Next{Retry: true})
)

type safe = redact.Safe

// wait is the answer of a mutation that time or another call ends.
var wait = lending.Next{Retry: true, After: time.Minute}

// reason is why a mutation was not sent, and what to do next.
type reason struct {
	safe

	text string
	next lending.Next
}

func reasonFor(text string, next lending.Next) *reason {
	return &reason{text: prefix + text, next: next}
}

func (r *reason) Error() string { return r.text }

// Next is found by [lending.NextOf].
func (r *reason) Next() lending.Next { return r.next }

// Error says why a mutation with a key was not sent: it wraps one of [ErrInProgress],
// [ErrInDoubt], [ErrNeedsReview], [ErrLocked], [ErrAnswerLost], [ErrKeyReused],
// [ErrOtherAccount] and [ErrStore].
type Error struct {
	Key        string        // of the mutation
	Held       string        // with ErrLocked the key of the other mutation
	Why        string        // for a person; may be empty
	RetryAfter time.Duration // when to call again; 0 if nothing says it

	safe
	kind  error
	cause error // of a store or a check; hidden
}

// Error names the key, the reason and the next step.
func (e *Error) Error() string {
	var b strings.Builder
	kind := strings.TrimPrefix(e.kind.Error(), prefix)
	fmt.Fprintf(&b, "%skey %q: %s", prefix, e.Key, kind)
	if e.Held != "" {
		fmt.Fprintf(&b, ": locked by key %q", e.Held)
	}
	if e.Why != "" {
		b.WriteString(": " + e.Why)
	}
	if e.cause != nil {
		b.WriteString(": " + redact.Describe(e.cause))
	}
	switch {
	case e.RetryAfter > 0:
		fmt.Fprintf(&b, "; retry after %v", max(e.RetryAfter.Round(time.Second), time.Second))
	case errors.Is(e.kind, ErrNeedsReview):
		b.WriteString("; decide it with Log.Resolve")
	case errors.Is(e.kind, ErrLocked):
		b.WriteString("; end that mutation first: call with its key, or decide it with Log.Resolve")
	case errors.Is(e.kind, ErrAnswerLost):
		b.WriteString("; read what you need of it")
	case errors.Is(e.kind, ErrKeyReused):
		b.WriteString("; call with the first request")
	case errors.Is(e.kind, ErrOtherAccount):
		b.WriteString("; give each service and account a namespace of its own")
	}
	return b.String()
}

const prefix = "lending/idempotency: "

// Format prints [Error.Error] under every verb.
func (e *Error) Format(f fmt.State, verb rune) { _, _ = io.WriteString(f, e.Error()) }

// Next says what to do: [lending.NextOf] asks for it. A retry waits for RetryAfter, or for a
// minute if nothing says how long.
func (e *Error) Next() lending.Next {
	next := lending.NextOf(e.kind)
	if errors.Is(e.kind, errCheckBefore) {
		next = lending.NextOf(e.cause)
	}
	if errors.Is(e.kind, ErrAnswerLost) && e.RetryAfter > 0 { // a read may still find it
		next = wait
	}
	if next.Retry && e.RetryAfter > 0 {
		next.After = e.RetryAfter
		next.Person = next.Person && !errors.Is(e.kind, ErrAnswerLost) // a later call may find the answer
	}
	return next
}

// Unwrap returns the kind and the cause, which shows nothing that was sent or received.
func (e *Error) Unwrap() []error {
	if e.cause == nil {
		return []error{e.kind}
	}
	return []error{e.kind, e.cause}
}

// storeError is what a store failed with, for a function that has no call.
func storeError(err error) error {
	if err == nil {
		return nil
	}
	return redact.New(ErrStore.Error()+": "+redact.Describe(err), errors.Join(ErrStore, err))
}
