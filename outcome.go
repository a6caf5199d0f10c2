package lending

import (
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"

	"github.com/lendingapi/lending-go/internal/redact"
)

// Outcome says whether a call that returned an error had its effect. The service has
// no idempotency keys: before a command is sent again, its outcome must be known.
type Outcome int

const (
	// OutcomeUnknown means that the command may have happened: the connection
	// broke, time ran out, or the answer was a 408, a 5xx, a redirect or a success that
	// does not look like one. Look it up before sending it again; [Error.CheckWith] names
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
// [OutcomeUnknown] for an error that is not of this package. It is the safe way to ask:
// for an error that was wrapped without %w it returns OutcomeUnknown, while errors.Is with
// [ErrMayHaveHappened] returns false.
//
// If err joins errors of several calls, those of reads do not count, and mutations whose
// outcomes differ are OutcomeUnknown.
//
// A [*DecodeError] of the response of a mutation is [OutcomeDone], whatever else is in err.
//
// A failed read is never OutcomeDone. It is never [OutcomeNotSent] either once it was
// tried: reads are repeated, and the last error does not tell of those before.
func OutcomeOf(err error) Outcome {
	var argument *ArgumentError
	var signIn *signInError
	var undecoded *DecodeError
	failed := outcomes(err)
	switch {
	case err == nil, errors.As(err, &undecoded) && undecoded.happened():
		return OutcomeDone
	case len(failed) == 1:
		return failed[0]
	case len(failed) > 1:
		return OutcomeUnknown
	case errors.As(err, &signIn) && signIn.empty:
		return OutcomeRejected
	case undecoded != nil:
		return OutcomeUnknown // what failed in it may look like an argument
	case signIn != nil, errors.As(err, &argument), errors.Is(err, ErrSignInRequired):
		return OutcomeNotSent
	}
	return OutcomeUnknown
}

// outcomes returns the different outcomes of the calls in err: of the mutations if there
// are any, of the first read if not.
func outcomes(err error) []Outcome {
	var reads, mutations []Outcome
	for link := range errorsIn(err) {
		switch failed, ok := link.(*Error); { //nolint:errorlint // one link at a time
		case !ok:
		case failed.Effect == Read:
			reads = append(reads, failed.Outcome)
		case !slices.Contains(mutations, failed.Outcome):
			mutations = append(mutations, failed.Outcome)
		}
	}
	if failed, ok := errors.AsType[*Error](err); ok && failed.Effect == Mutation && len(reads)+len(mutations) == 0 {
		return []Outcome{failed.Outcome} // of an error that has an As of its own
	}
	if len(mutations) == 0 {
		return reads[:min(len(reads), 1)]
	}
	return mutations
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
)

var (
	errNoAnswer  error = redact.Text("the http.Client returned neither an answer nor an error")
	errSentAgain error = redact.Text("the http.Client tried to send it a second time, which was prevented")
	errSentOften error = redact.Text("the http.Client sent it again and again, which was stopped")
)

// IsNotFound reports whether err is the error of a read that found no record. The service
// has three ways to answer such a read, and does not publish which read uses which:
//
//   - 204, null or an empty body where a record is due: [ErrNoContent]
//   - 404 with a problem record of the service
//   - 400 with a problem record of the service that names no field
//
// The last is the weakest: "some legacy reads return 400 where a missing record might be
// expected", and a failed business operation looks the same. A 400 that names fields
// rejects the arguments. A problem record without title and error code may come from a
// proxy, or from another service if the base URL is wrong. A list without records is empty
// and no error.
//
// IsNotFound returns false for every error of a mutation, even one joined with a read's
// error, and for errors wrapped without %w.
//
// A record that is not found may still appear: a mutation whose response was lost can
// still be in flight.
func IsNotFound(err error) bool {
	found := false
	for link := range errorsIn(err) {
		switch link := link.(type) {
		case *Error:
			if link.Effect == Mutation {
				return false
			}
			found = found || link.isNotFound()
		case *ArgumentError:
			return false // may be of a mutation
		}
	}
	return found && !errors.Is(err, ErrMayHaveHappened) && !errors.Is(err, ErrSignInRequired)
}

// isNotFound reports whether e, of a read, says that there is no record.
func (e *Error) isNotFound() bool {
	switch e.StatusCode {
	case http.StatusNotFound:
		return e.Problem.isOfService()
	case http.StatusBadRequest:
		return e.Problem.isOfService() && len(e.Problem.Errors) == 0
	}
	return errors.Is(e, ErrNoContent)
}

// mayBeNotFound is IsNotFound for a read whose caller notices a wrong guess: any 400 or 404
// will do, and a record without its id.
func mayBeNotFound(err error) bool {
	failed, ok := errors.AsType[*Error](err)
	part, lost := errors.AsType[*shapeError](err)
	return IsNotFound(err) || lost && part.path == "id" ||
		ok && (failed.StatusCode == http.StatusNotFound || failed.StatusCode == http.StatusBadRequest)
}

// errorsIn yields err and all that it wraps, the outermost first.
func errorsIn(err error) iter.Seq[error] {
	return func(yield func(error) bool) { yieldErrors(err, yield) }
}

func yieldErrors(err error, yield func(error) bool) bool {
	if err == nil {
		return true
	}
	if !yield(err) {
		return false
	}
	switch err := err.(type) { //nolint:errorlint // one link at a time
	case interface{ Unwrap() error }:
		return yieldErrors(err.Unwrap(), yield)
	case interface{ Unwrap() []error }:
		for _, inner := range err.Unwrap() {
			if !yieldErrors(inner, yield) {
				return false
			}
		}
	}
	return true
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
