package lending

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/lendingapi/lending-go/internal/redact"
	"github.com/lendingapi/lending-go/internal/signin"
)

// Error is the error of a call with valid arguments.
//
// The text can be logged: it shows status, route template, codes, field names and trace ids, and
// no value of a request or a response. The fields have the service's own words, which may echo
// the request.
type Error struct {
	safe

	Method     string // of the request, for example "POST"
	Route      string // path template, for example "/api/Loan/get-loan/{loanId}"
	Effect     Effect
	StatusCode int             // of the last response; 0 if there was none
	Outcome    Outcome         // never OutcomeDone for a read, which has no effect
	Problem    *ProblemDetails // nil if the response has none
	Attempts   int             // number of times the request was sent, or nearly sent

	// IdempotencyKey is the key of the call: see [WithIdempotencyKey]. "" without one.
	IdempotencyKey string

	// CheckWith names the reads that show whether a mutation happened, for example
	// "Applications.Status". CheckWith is empty for reads, for [Client.Do], and for mutations
	// that no read shows.
	CheckWith string

	// RetryAfter is the time to wait before another call: as the service asks, or until the next
	// sign-in of a [Session]. 0 if unknown.
	RetryAfter time.Duration

	response func() *Response // no pointer: fmt looks behind one under a verb that does not fit
	cause    error
	// isMissing is of [WithMissing].
	isMissing bool
	said      *Next // by the layer, or by the client itself; nil if outcome and status say it
}

// Response returns the last response of the service, nil if there was none. A response may echo
// the request.
func (e *Error) Response() *Response {
	if e.response == nil {
		return nil
	}
	return e.response()
}

// Error describes the failure without any value of request or response.
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
		b.WriteString(outcome) // unless the cause ends with the same words
	}
	return b.String()
}

// outcome describes the outcome of a mutation and the next step.
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

// Unwrap returns the cause: an error of the context, the network, the token source or the
// decoder. Its text can be logged too. If a sign-in failed, errors.As finds its *Error in the
// cause.
//
// errors.Is finds every error behind the cause. errors.As finds only errors that quote nothing:
// [net.Error], [syscall.Errno], errors of certificates, [*net.OpError] and [*net.DNSError] of a
// failed connection, and the caller's own types.
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

// LogValue logs the parts of [Error.Error] as attributes.
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

// hidden returns an error with a text that may be shown. Only errors.Is and errors.As find
// something of the cause: see [Error.Unwrap].
func hidden(text string, cause error) error { return redact.New(text, cause, notFrom(cause)...) }

// hide returns err without any text that may quote the request or the response.
func hide(err error) error { return redact.Hide(err, notFrom(err)...) }

// ofAnswer are errors of a call's own response, never of an error inside its cause.
var ofAnswer = []error{
	knows(OutcomeDone),
	ErrUnauthorized, ErrForbidden, ErrNotFound, ErrRateLimited, ErrOutcomeUnknown, ErrMayHaveHappened, ErrTooLarge, ErrNoContent,
}

// notFrom returns the errors that errors.Is must not find in cause. Causes of this package may
// contain the last two.
func notFrom(cause error) []error {
	if _, nested := errors.AsType[*Error](cause); nested {
		return ofAnswer
	}
	return ofAnswer[:len(ofAnswer)-2]
}

// OutcomeOf returns the outcome of the call that returned err: [OutcomeDone] for nil,
// [OutcomeUnknown] for an error that is not of this package. If err lost an error's %w,
// OutcomeOf returns OutcomeUnknown, while errors.Is with [ErrMayHaveHappened] returns false.
//
// If err joins errors of several calls, OutcomeOf ignores reads, and returns OutcomeUnknown for
// mutations with different outcomes. A [*DecodeError] of a mutation is [OutcomeDone].
//
// A failed read is never OutcomeDone, and never [OutcomeNotSent] after an attempt.
func OutcomeOf(err error) Outcome {
	var argument *ArgumentError
	var own signin.Error
	if isNilPointer(err) {
		return OutcomeUnknown
	}
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
		return OutcomeUnknown // the cause may look like an argument
	case errors.Is(err, knows(OutcomeNotSent)), errors.As(err, &own), errors.As(err, &argument), errors.Is(err, ErrSignInRequired):
		return OutcomeNotSent
	}
	return OutcomeUnknown
}

// outcomes returns the different outcomes of the mutations in err. Without a mutation it returns
// the outcome of the first read.
func outcomes(err error) []Outcome {
	var reads, mutations []Outcome
	for link := range errorsIn(err) {
		switch failed, ok := link.(*Error); { //nolint:errorlint // one link at a time
		case !ok:
		case failed.Effect == Read && failed.Outcome == OutcomeDone: // as a caller made it
			reads = append(reads, OutcomeUnknown)
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

// IsNotFound reports whether err is the error of a read that found no record. The service uses
// three responses for a missing record, and does not publish which read uses which:
//
//   - 204, null or an empty body in place of a record: [ErrNoContent]. In a check of an idempotency
//     layer an empty body is an error, and so is a 204 unless docs/dev/assumptions.md or [WithMissing] has it
//   - 404 with a problem record of the service
//   - 400 with a problem record of the service that names no field
//
// [WithMissing] adds an empty response of a read.
//
// The last is the weakest evidence: a failed business operation looks the same. A 400 with field
// names rejects the arguments. A problem record without title and error code may come from a
// proxy, or from another service. A list without records is empty, not an error.
//
// IsNotFound returns false for every error of a mutation, even one joined with a read's error,
// and for errors wrapped without %w.
//
// A missing record may still appear: a mutation whose response was lost can still be in flight.
func IsNotFound(err error) bool {
	found := false
	if isNilPointer(err) {
		return false
	}
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

// isNotFound reports whether e, the error of a read, reports a missing record.
func (e *Error) isNotFound() bool {
	if e.isMissing {
		return true
	}
	switch e.StatusCode {
	case http.StatusNotFound:
		return e.Problem.isOfService()
	case http.StatusBadRequest:
		return e.Problem.isOfService() && len(e.Problem.Errors) == 0
	}
	return errors.Is(e, ErrNoContent)
}

// mayBeNotFound is a weaker IsNotFound, for callers that notice a wrong guess. It accepts any
// 400 or 404, and a record without its id.
func mayBeNotFound(err error) bool {
	failed, ok := errors.AsType[*Error](err)
	part, lost := errors.AsType[*shapeError](err)
	return IsNotFound(err) || lost && part.Path == "id" ||
		ok && (failed.StatusCode == http.StatusNotFound || failed.StatusCode == http.StatusBadRequest)
}

// isNilPointer reports whether err is a nil pointer, which has methods and no content.
func isNilPointer(err error) bool {
	v := reflect.ValueOf(err)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// errorsIn yields err and every error in its tree, the outermost first.
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

// Response is the service's response to a call: see [CaptureResponse]. A Response can contain
// tokens and echo the request. Under fmt, slog and json.Marshal a Response shows its status and
// its size.
//
// Exceptions: fmt prints Header and Body if a Response is in an unexported field of another
// struct (use a *Response there), and so does code that prints by reflection, such as testify.
type Response struct {
	StatusCode int
	Header     http.Header
	Body       []byte // decompressed, as far as received
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
