package lending

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
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

// safe marks the errors of this package whose text may be shown.
type safe = redact.Safe

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
