package idempotency

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/lendingapi/lending-go/internal/redact"
)

// Why a mutation with a key was not sent. errors.As finds the [*Error] with it, whose
// RetryAfter says when to call again; [lending.Error].RetryAfter says the same.
var (
	// ErrInProgress means that another call with the key may be in flight.
	ErrInProgress error = redact.Text(prefix + "another call with the key may be in progress")
	// ErrInDoubt means that the answer of the mutation is lost, and that nobody knows yet
	// whether it happened: a check failed, or the service can still execute it.
	ErrInDoubt error = redact.Text(prefix + "whether it happened is not known yet")
	// ErrNeedsReview means that the answer of the mutation is lost, and that no check tells
	// whether it happened. [Log.Resolve], [SafeToRepeat] or [WithCheck] decide it.
	ErrNeedsReview error = redact.Text(prefix + "no check tells whether it happened")
	// ErrLocked means that a mutation with another key is in doubt, and that a check could not
	// tell its effect from that of this one. [Error.Held] is its key.
	ErrLocked error = redact.Text(prefix + "a mutation that would hide its effect is in doubt")
	// ErrAnswerLost means that the mutation has happened and that its answer is not known. If
	// [Error.RetryAfter] is set, a later call may find it. Otherwise [Log.Resolve] or [WithCheck]
	// can give it, and a caller who needs no answer goes on.
	ErrAnswerLost error = redact.Text(prefix + "it happened, and its answer is not known")
	// ErrKeyReused means that an earlier call has used the key for another request, which may
	// have left. The outcome is that of the earlier request. Never send the mutation under a
	// new key unless the outcome is [lending.OutcomeNotSent].
	ErrKeyReused error = redact.Text(prefix + "it belongs to another request")
	// ErrOtherAccount means that an earlier call has used the key with another service, for
	// example a sandbox, or with another account. The log neither sends the mutation nor
	// returns the recorded answer. Give each service and account its own [Options.Namespace].
	ErrOtherAccount error = redact.Text(prefix + "it belongs to another service or account")
	// ErrStore means that the store of the log failed. If the outcome is
	// [lending.OutcomeDone], the mutation has happened, and the next call with the key
	// finds that out.
	ErrStore error = redact.Text(prefix + "the store of the log failed")
)

var (
	errFingerprint = redact.Text(prefix + "the request cannot be read twice")
	errCheckBefore = redact.Text(prefix + "the check before the mutation failed")
)

type safe = redact.Safe

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
