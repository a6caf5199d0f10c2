package lending

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/lendingapi/lending-go/internal/redact"
)

// Error is the error of a call that got as far as the network, or to the door of it.
//
// Its text shows status, route template, codes, field names and trace ids, and no
// value of any parameter: it may be logged. What the service says beyond that can
// echo what was sent, and is reached through the fields.
type Error struct {
	safe

	Method     string // of the request, for example "POST"
	Route      string // path template, for example "/api/Loan/get-loan/{loanId}"
	Effect     Effect
	StatusCode int             // of the last answer; 0 if there was none
	Outcome    Outcome         // never OutcomeDone for a read, which has no effect
	Problem    *ProblemDetails // nil if the answer held none
	Attempts   int             // how often the request was sent, or tried to

	// CheckWith names the reads that tell whether a mutation has happened, for example
	// "Applications.Status". It is empty for a read, for [Client.Do], and where no read tells.
	CheckWith string

	// RetryAfter is how long the service asks to wait, with this call or with the
	// sign-in before it, or how long a [Session] waits until the next sign-in. 0 if
	// nobody asks.
	RetryAfter time.Duration

	response func() *Response // no pointer: fmt looks behind one under a verb that does not fit
	cause    error
}

// Response returns the last answer of the service as it was received, nil if there
// was none. It may hold what was sent.
func (e *Error) Response() *Response {
	if e.response == nil {
		return nil
	}
	return e.response()
}

// Error describes the failure without any value that was sent or received.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "lending: %s %s", e.Method, e.Route)
	if e.StatusCode != 0 {
		b.WriteString(strings.TrimRight(fmt.Sprintf(": %d %s", e.StatusCode, http.StatusText(e.StatusCode)), " "))
	}
	if e.cause != nil {
		b.WriteString(": " + redact.Describe(e.cause))
	}
	if e.Problem != nil {
		b.WriteString(e.Problem.summary())
	}
	if outcome := ": " + e.outcome(); e.Effect == Mutation && !strings.HasSuffix(b.String(), outcome) {
		b.WriteString(outcome) // unless that of a sign-in says the same
	}
	return b.String()
}

// outcome says the outcome of a mutation in words, and what to do about it.
func (e *Error) outcome() string {
	switch {
	case e.Outcome == OutcomeDone && e.CheckWith != "":
		return "it happened, the answer is lost, read " + e.CheckWith
	case e.Outcome == OutcomeDone:
		return "it happened, the answer is lost"
	case e.Outcome == OutcomeUnknown && e.CheckWith != "":
		return "outcome unknown, check with " + e.CheckWith
	case e.Outcome == OutcomeUnknown:
		return "outcome unknown, no read shows it"
	}
	return e.Outcome.String()
}

// Unwrap returns the cause: an error of the context, of the network, of the token
// source or of the decoding. Its text is as safe as that of Error. If a
// sign-in failed, errors.As finds its Error in the cause.
//
// errors.Is finds whatever lies behind the cause, errors.As what does not quote: a
// [net.Error], the number that the system gave, the errors of certificates, a
// [*net.OpError] or [*net.DNSError] that says where no connection could be made, and
// the caller's own types, but nothing else of package net and those below it, nor
// anything by another interface.
func (e *Error) Unwrap() error { return e.cause }

// Is reports whether target is the sentinel of the status or the outcome.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrUnauthorized:
		return e.StatusCode == http.StatusUnauthorized
	case ErrForbidden:
		return e.StatusCode == http.StatusForbidden
	case ErrNotFound:
		return e.StatusCode == http.StatusNotFound
	case ErrTooLarge:
		return e.StatusCode == http.StatusRequestEntityTooLarge
	case ErrRateLimited:
		return e.StatusCode == http.StatusTooManyRequests
	case ErrOutcomeUnknown:
		return e.Outcome == OutcomeUnknown && e.Effect == Mutation
	case ErrMayHaveHappened:
		return (e.Outcome == OutcomeUnknown || e.Outcome == OutcomeDone) && e.Effect == Mutation
	}
	return false
}

// Format prints [Error.Error] under every verb.
func (e *Error) Format(f fmt.State, verb rune) { _, _ = io.WriteString(f, e.Error()) }

// MarshalJSON writes [Error.Error] as a string.
func (e *Error) MarshalJSON() ([]byte, error) { return json.Marshal(e.Error()) }

// LogValue logs the parts that [Error.Error] shows.
func (e *Error) LogValue() slog.Value {
	attrs := []slog.Attr{
		slog.String("method", e.Method),
		slog.String("route", e.Route),
		slog.Int("status", e.StatusCode),
		slog.String("outcome", e.Outcome.String()),
		slog.Int("attempts", e.Attempts),
	}
	if e.Problem != nil {
		attrs = append(attrs, slog.Any("problem", e.Problem))
	}
	if e.cause != nil {
		attrs = append(attrs, slog.String("cause", redact.Describe(e.cause)))
	}
	return slog.GroupValue(attrs...)
}

// hidden returns an error with a text that may be shown, and a cause of which only
// errors.Is and errors.As find something: see [Error.Unwrap].
func hidden(text string, cause error) error { return redact.New(text, cause, notFrom(cause)...) }

// hide returns err such that no text in its chain can quote what was sent or received.
func hide(err error) error { return redact.Hide(err, notFrom(err)...) }

// ofAnswer are what only the call's own answer can say, and no error inside.
var ofAnswer = []error{
	ErrUnauthorized, ErrForbidden, ErrNotFound, ErrRateLimited, ErrOutcomeUnknown, ErrMayHaveHappened, ErrTooLarge, ErrNoContent,
}

// notFrom returns what errors.Is must not find in cause. The last two this package says of
// an answer too.
func notFrom(cause error) []error {
	if _, nested := errors.AsType[*Error](cause); nested {
		return ofAnswer
	}
	return ofAnswer[:len(ofAnswer)-2]
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
	failed := outcomes(err)
	switch {
	case err == nil, errors.Is(err, knows(OutcomeDone)):
		return OutcomeDone
	case len(failed) == 1:
		return failed[0]
	case len(failed) > 1:
		return OutcomeUnknown
	case errors.Is(err, knows(OutcomeRejected)):
		return OutcomeRejected
	case errors.Is(err, knows(OutcomeUnknown)):
		return OutcomeUnknown // what failed in it may look like an argument
	case errors.Is(err, knows(OutcomeNotSent)), errors.As(err, &argument), errors.Is(err, ErrSignInRequired):
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
		switch link := link.(type) { //nolint:errorlint // one link at a time
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

// Response is what the service answered to one call: see [CaptureResponse]. It can
// hold tokens and what was sent: under fmt, slog and json.Marshal it shows its status
// and its size.
//
// In an unexported field of another struct fmt calls no method, and prints Header and
// Body with that struct: keep a *Response there, of which it prints the address under
// %v, %+v and %#v. What prints by reflection alone, as testify
// does with what differs, shows all of it.
type Response struct {
	StatusCode int
	Header     http.Header
	Body       []byte // decoded, as far as it was received
}

// String shows status and size.
func (r Response) String() string {
	return fmt.Sprintf("%d %s, %d bytes", r.StatusCode, http.StatusText(r.StatusCode), len(r.Body))
}

// Format prints [Response.String] under every verb.
func (r Response) Format(f fmt.State, verb rune) { _, _ = io.WriteString(f, r.String()) }

// LogValue logs [Response.String].
func (r Response) LogValue() slog.Value { return slog.StringValue(r.String()) }

// MarshalJSON writes [Response.String].
func (r Response) MarshalJSON() ([]byte, error) { return json.Marshal(r.String()) }

type captureKey struct{}

// capture is where the answer of a call is kept. Observers capture beside the caller.
type capture struct {
	into  *Response
	outer *capture
}

// keep fills everything that captures.
func (c *capture) keep(answer Response) {
	for ; c != nil; c = c.outer {
		*c.into = answer
	}
}

// captured returns where the answer of a call is to be kept, emptied; nil for nowhere.
func captured(ctx context.Context) *capture {
	c, _ := ctx.Value(captureKey{}).(*capture)
	c.keep(Response{})
	return c
}

// CaptureResponse returns a context whose calls fill into with the last answer of the
// service, also when they return an error. It is for one call at a time. A Response that
// ctx captures into already is filled as well, so observers can capture beside the caller.
func CaptureResponse(ctx context.Context, into *Response) context.Context {
	outer, _ := ctx.Value(captureKey{}).(*capture)
	return context.WithValue(ctx, captureKey{}, &capture{into, outer})
}
