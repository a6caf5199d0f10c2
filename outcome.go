package lending

import (
	"errors"
	"fmt"

	"github.com/lendingapi/lending-go/internal/redact"
	"github.com/lendingapi/lending-go/internal/safely"
)

// Effect says what a route does when it is called, which decides whether it may be
// called again. The HTTP method does not say it: some GETs of the service change state.
type Effect int

const (
	// Mutation changes something: it is sent at most once.
	Mutation Effect = iota
	// Read changes nothing: it is repeated after transient failures.
	Read
)

// String returns "mutation" or "read".
func (e Effect) String() string {
	if e == Read {
		return "read"
	}
	return "mutation"
}

// Outcome says whether a call that returned an error had its effect. The service has
// no idempotency keys: before a mutation is sent again, its outcome must be known.
type Outcome int

const (
	// OutcomeUnknown means that the mutation may have happened: the connection
	// broke, time ran out, or the answer was a 408, a 5xx, a redirect or a success that
	// does not look like one. Look it up before sending it again; [Error.CheckWith] names
	// the read.
	OutcomeUnknown Outcome = iota
	// OutcomeNotSent means that the service never saw the mutation.
	OutcomeNotSent
	// OutcomeRejected means that the service refused the mutation.
	OutcomeRejected
	// OutcomeDone means that the mutation happened and only its answer was lost, or the id
	// in it.
	OutcomeDone
)

// String returns "unknown", "not sent", "rejected" or "done".
func (o Outcome) String() string {
	switch o {
	case OutcomeNotSent:
		return "not sent"
	case OutcomeRejected:
		return "rejected"
	case OutcomeDone:
		return "done"
	case OutcomeUnknown:
	}
	return "unknown"
}

// What errors.Is finds in the errors of this package. A status is that of the call's own
// answer, never that of a sign-in before it: the call was not sent then. The text and
// [Error.RetryAfter] tell of the sign-in.
var (
	// ErrUnauthorized is status 401: the token is missing, invalid, expired or of another environment.
	ErrUnauthorized = errors.New("unauthorized")
	// ErrForbidden is status 403: the account may not do this.
	ErrForbidden = errors.New("forbidden")
	// ErrNotFound is status 404, of a proxy too. [IsNotFound] tells a record that is missing.
	ErrNotFound = errors.New("not found")
	// ErrTooLarge is status 413, or an answer larger than this package reads.
	ErrTooLarge error = redact.Text("too large")
	// ErrRateLimited is status 429. [Error.RetryAfter] holds what the service asks for.
	ErrRateLimited = errors.New("rate limited")
	// ErrNoContent means that the service answered with success and no record: a
	// 204, an empty body or null.
	ErrNoContent error = redact.Text("no content")
	// ErrOutcomeUnknown is [OutcomeUnknown] of a mutation. A read never has it.
	ErrOutcomeUnknown = errors.New("outcome unknown")
	// ErrMayHaveHappened is [OutcomeUnknown] or [OutcomeDone] of a mutation, a [*DecodeError]
	// of its answer among them: look it up before sending it again. A read never has it. Where an error may have lost its %w,
	// ask [OutcomeOf]: errors.Is cannot find there what it should warn of.
	ErrMayHaveHappened = errors.New("it may have happened")
	// ErrSignInRequired means that a person has to sign in, see [TwoFactorRequiredError],
	// or that the client has no source of tokens.
	ErrSignInRequired error = redact.Text("sign-in required")
	// ErrRepeatedPage means that the service has answered an iterator with a page that the
	// iterator had already received: going on would never end. If the records really are
	// alike, begin again behind them.
	ErrRepeatedPage error = redact.Text("the service repeats a page")
	// ErrNotSaved means that the service reported success to [WebhooksService.Ensure] and did
	// not save the subscription, or saved it without a secret.
	ErrNotSaved = errors.New("lending: webhook subscription: it reads back otherwise, or without a secret")
	// ErrInactive means that the service has the subscription of [WebhooksService.Ensure] and
	// sends it nothing, because it is switched off.
	ErrInactive = errors.New("lending: webhook subscription: it is not active")
	// ErrSignature is in every error of [Verify].
	ErrSignature = errors.New("lending: webhook signature not accepted")
)

var (
	errNoAnswer  error = redact.Text("the http.Client returned neither an answer nor an error")
	errSentAgain error = redact.Text("the http.Client tried to send it a second time, which was prevented")
	errSentOften error = redact.Text("the http.Client sent it again and again, which was stopped")
)

// PanicError is the error of a caller's function that panicked where the library calls it
// in the background: in a [Session], and in package webhook.
type PanicError struct {
	Value any
	Stack []byte
}

// Error names the type of the value, which can hold what the function was given.
func (e *PanicError) Error() string {
	return fmt.Sprintf("lending: a function panicked with a value of type %T", e.Value)
}

// safe marks the errors of this package whose text may be shown.
type safe = redact.Safe

// knows is what [OutcomeOf] asks errors.Is for: an error that knows an outcome and is no
// [*Error] answers to it.
type knows Outcome

func (k knows) Error() string { return Outcome(k).String() }

// interruption describes an error that [safely.Call] has made, and is empty for another.
func interruption(err error) string {
	if p, ok := err.(*PanicError); ok { //nolint:errorlint // one that a function has returned is that function's
		return fmt.Sprintf("panic with a %T", p.Value)
	}
	if err == safely.ErrGoexit { //nolint:errorlint // see above
		return "a function ended its goroutine"
	}
	return ""
}
