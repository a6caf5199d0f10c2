package lending

import (
	"errors"
	"fmt"
	"net/http"
)

// Outcome says whether a call that returned an error had its effect. The service has
// no idempotency keys: before a command is sent again, its outcome must be known.
type Outcome int

const (
	// OutcomeUnknown means that the command may have happened: the connection
	// broke, time ran out, or the answer was a 408, a 5xx, a redirect or a success that
	// does not look like one. Look it up before sending it again; [Error.SettledBy] names
	// the read.
	OutcomeUnknown Outcome = iota
	// OutcomeNotSent means that the service never saw the command.
	OutcomeNotSent
	// OutcomeRejected means that the service refused the command.
	OutcomeRejected
	// OutcomeDone means that the command happened and only its answer was lost, or the id
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

// OutcomeOf returns the outcome of the call that returned err: [OutcomeDone] for nil,
// [OutcomeUnknown] for an error that is not of this package. That makes it the safe way to
// ask: an error that was wrapped without %w on its way is [OutcomeUnknown] to it, where
// errors.Is with [ErrMayHaveHappened] says no, as if nothing could have happened.
//
// A [*DecodeError] of a command's answer is [OutcomeDone], whatever else is in err.
//
// A read changes nothing, whatever its outcome. It is never [OutcomeNotSent] once it was
// tried: reads are repeated, and the last error does not tell of those before.
func OutcomeOf(err error) Outcome {
	var failed *Error
	var argument *ArgumentError
	var signIn *signInError
	var undecoded *DecodeError
	switch {
	case err == nil, errors.As(err, &undecoded) && undecoded.happened():
		return OutcomeDone
	case errors.As(err, &failed):
		return failed.Outcome
	case errors.As(err, &signIn) && signIn.empty:
		return OutcomeRejected
	case undecoded != nil:
		return OutcomeUnknown // what failed in it may look like an argument
	case errors.As(err, &argument), errors.Is(err, ErrSignInRequired):
		return OutcomeNotSent
	}
	return OutcomeUnknown
}

// What errors.Is finds in the errors of this package. A status is that of the call's own
// answer, never that of a sign-in before it: the call was not sent then. The text and
// [Error.RetryAfter] tell of the sign-in.
var (
	// ErrUnauthorized is status 401: the token is missing, invalid, expired or of another environment.
	ErrUnauthorized = errors.New("unauthorized")
	// ErrForbidden is status 403: the account may not do this.
	ErrForbidden = errors.New("forbidden")
	// ErrNotFound is status 404, of a proxy too. [Absent] tells a record that is missing.
	ErrNotFound = errors.New("not found")
	// ErrTooLarge is status 413, or an answer larger than this package reads.
	ErrTooLarge = errors.New("too large")
	// ErrRateLimited is status 429. [Error.RetryAfter] holds what the service asks for.
	ErrRateLimited = errors.New("rate limited")
	// ErrNoContent means that the service answered with success and no record: a
	// 204, an empty body or null.
	ErrNoContent = errors.New("no content")
	// ErrOutcomeUnknown is [OutcomeUnknown] of a mutation. A read never has it.
	ErrOutcomeUnknown = errors.New("outcome unknown")
	// ErrMayHaveHappened is [OutcomeUnknown] or [OutcomeDone] of a mutation, a [*DecodeError]
	// of its answer among them: look it up before sending it again. A read never has it. Where an error may have lost its %w,
	// ask [OutcomeOf]: errors.Is cannot find there what it should warn of.
	ErrMayHaveHappened = errors.New("it may have happened")
	// ErrSignInRequired means that a person has to sign in, see [TwoFactorRequiredError],
	// or that the client has no source of tokens.
	ErrSignInRequired = errors.New("sign-in required")
)

var (
	errNoAnswer  = errors.New("the http.Client returned neither an answer nor an error")
	errSentAgain = errors.New("the http.Client tried to send it a second time, which was prevented")
	errSentOften = errors.New("the http.Client sent it again and again, which was stopped")
)

// Absent reports whether err, of a read, says that what was asked for is not there. The
// service has three ways to say it, and does not publish which read uses which:
//
//   - 204, null or an empty answer where a record is due: [ErrNoContent];
//   - 404 with its problem record;
//   - 400 with its problem record that names no field: "some legacy reads return 400
//     where a missing record might be expected". It is the weakest of them, as a failed
//     business operation looks the same: there is no offer, or none can be shown.
//
// A 400 that names fields complains of the arguments. Without a problem record, with a
// title or an error code, a 400 or 404 may come from a proxy, or from a base URL that
// leads elsewhere; another service there may have one too. An error of a mutation, with
// that of a read beside it or not, is never an absence, nor is an error that lost its %w.
// A list without records is no error, and empty.
//
// An absence does not last: a command whose answer is lost can still be under way.
func Absent(err error) bool {
	failed, ok := errors.AsType[*Error](err)
	if !ok || failed.Effect != Read || errors.Is(err, ErrMayHaveHappened) {
		return false
	}
	switch failed.StatusCode {
	case http.StatusNotFound:
		return failed.Problem.isOfService()
	case http.StatusBadRequest:
		return failed.Problem.isOfService() && len(failed.Problem.Errors) == 0
	}
	return errors.Is(err, ErrNoContent)
}

// isOfService reports whether p can be the service's own: gateways answer with JSON too,
// but hardly with a title or an error code.
func (p *ProblemDetails) isOfService() bool {
	return p != nil && (p.Title != "" || p.ErrorCode != "")
}

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
