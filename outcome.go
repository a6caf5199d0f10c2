package lending

import (
	"errors"
	"fmt"
	"time"

	"github.com/lendingapi/lending-go/internal/redact"
	"github.com/lendingapi/lending-go/internal/safely"
	"github.com/lendingapi/lending-go/internal/signin"
)

// Effect says whether a route changes state, and so whether the client may repeat a call. The
// HTTP method does not tell: some GETs of the service change state.
type Effect int

const (
	// Mutation changes state: the client sends it at most once.
	Mutation Effect = iota
	// Read changes nothing: the client retries it after transient failures.
	Read
)

// String returns "mutation" or "read".
func (e Effect) String() string {
	if e == Read {
		return "read"
	}
	return "mutation"
}

// Outcome says whether a call that returned an error had its effect. Know the outcome of a
// mutation before you send it again.
type Outcome int

const (
	// OutcomeUnknown means that the mutation may have happened: the connection broke, time ran
	// out, or the response to a whole request was a 408, a 5xx, a redirect, or a 2xx whose body contradicts the
	// status. Read what [Error.CheckWith] names before sending again.
	OutcomeUnknown Outcome = iota
	// OutcomeNotSent means that the service never saw the mutation.
	OutcomeNotSent
	// OutcomeRejected means that the service refused the mutation, or a gateway if the response has no
	// problem record. Let no gateway replace a response of the service with a 4xx of its own, as rules of
	// a WAF for responses do: the mutation has happened, and a loop over [NextOf] sends it again.
	OutcomeRejected
	// OutcomeDone means that the mutation happened, and its response, or the id in its response,
	// was lost.
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

// Sentinels for errors.Is. The errors of a status belong to the call's own response, never to a
// sign-in before the call.
var (
	// ErrUnauthorized is status 401: the token is missing, invalid, expired or of another environment.
	ErrUnauthorized = errors.New("unauthorized")
	// ErrForbidden is status 403: the account may not do this.
	ErrForbidden = errors.New("forbidden")
	// ErrNotFound is status 404, perhaps of a proxy. [IsNotFound] reports a missing record.
	ErrNotFound = errors.New("not found")
	// ErrTooLarge is status 413, or a response over 64 MiB (1 MiB for an error).
	ErrTooLarge error = redact.Text("too large")
	// ErrRateLimited is status 429. [Error.RetryAfter] is the service's Retry-After.
	ErrRateLimited = errors.New("rate limited")
	// ErrNoContent is a 2xx response without a record: a 204, an empty body or null.
	ErrNoContent error = redact.Text("no content")
	// ErrOutcomeUnknown is [OutcomeUnknown] of a mutation. A read never has it.
	ErrOutcomeUnknown = errors.New("outcome unknown")
	// ErrMayHaveHappened is [OutcomeUnknown] or [OutcomeDone] of a mutation. A read never has
	// it. If an error may have lost its %w, use [OutcomeOf], which then returns OutcomeUnknown.
	ErrMayHaveHappened = errors.New("it may have happened")
	// ErrSignInRequired means that a person has to sign in (see [TwoFactorRequiredError]), or
	// that the client has no source of tokens.
	ErrSignInRequired error = redact.Text("sign-in required")
	// ErrRepeatedPage means that an iterator received the same page twice, and stopped because
	// the list might never end. If the records really are alike, begin again behind them.
	ErrRepeatedPage error = redact.Text("the service repeats a page")
	// ErrInactive means that the service sends no events for the subscription of
	// [WebhooksService.Ensure]: it is switched off, or the service reported success and did not
	// save it, or saved no secret. The text says which.
	ErrInactive error = redact.Text("lending: webhook subscription: it is switched off; ask the service to switch it on")
	// ErrSignature is in every error of [Verify].
	ErrSignature = errors.New("lending: webhook signature not accepted")
	// ErrLeaseHeld is of a [TokenStore]: another owner has the lease.
	ErrLeaseHeld = signin.ErrLeaseHeld
	// ErrFenced is of a [TokenStore]: a newer token is kept already.
	ErrFenced = signin.ErrFenced
	// ErrCorruptToken is of a [TokenStore]: what is kept cannot be read.
	ErrCorruptToken = signin.ErrCorrupt
)

var (
	errNoAnswer  error = redact.Text("the http.Client returned neither an answer nor an error")
	errNeedsBody error = redact.Text("the service wants a body: pass a request, even an empty one")
	errSentAgain error = redact.Text("the http.Client tried to send the request twice; give it a transport that repeats nothing")
	errEnded     error = redact.Text("the service ended the HTTP/2 stream or the connection before its response")
	errSentOften error = redact.Text("a connection ended again and again before its response; check the gateway, or the transport of WithHTTPClient")
)

// PanicError is the error of a caller's function that panicked in the background: in a [Session], or
// in one of the packages webhook, orders, ops and idempotency.
type PanicError struct {
	Value any
	Stack []byte
}

// Error names the type of the value only, because the value may be confidential.
func (e *PanicError) Error() string {
	return fmt.Sprintf("lending: a function panicked with a value of type %T", e.Value)
}

// safe marks errors of this package whose text may be shown.
type safe = redact.Safe

// knows is a target for errors.Is: an error other than [*Error] reports its outcome to
// [OutcomeOf] by matching it.
type knows Outcome

func (k knows) Error() string { return Outcome(k).String() }

// interruption describes an error of [safely.Call]. It is empty for other errors.
func interruption(err error) string {
	if p, ok := err.(*PanicError); ok { //nolint:errorlint // one that a function has returned is that function's
		return fmt.Sprintf("panic with a %T", p.Value)
	}
	if err == safely.ErrGoexit { //nolint:errorlint // see above
		return "a function ended its goroutine"
	}
	return ""
}

// Next is the decision of [NextOf] about the next step after an error. The zero Next means stop.
type Next struct {
	// Retry reports whether the same step may run again. Nothing happens twice.
	Retry bool
	// After is the wait before the retry. If After is 0, use a back-off. After is always 0
	// without Retry.
	After time.Duration
	// Person reports whether a person must act. With Retry, the step succeeds after the person
	// has acted. Without Retry, the program cannot go on.
	Person bool
}

// String returns "retry", "stop", "person" or "person, retry", with the wait.
func (n Next) String() string {
	text := "stop"
	switch {
	case n.Person && n.Retry:
		text = "person, retry"
	case n.Person:
		text = "person"
	case n.Retry:
		text = "retry"
	}
	if n.After > 0 {
		text += " after " + n.After.String()
	}
	return text
}
