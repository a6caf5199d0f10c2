package lending

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/lendingapi/lending-go/internal/signin"
)

// Next says what a program does after an error: see [NextOf]. The zero Next is to stop.
type Next struct {
	// Retry reports whether the same step may run again: nothing can happen twice.
	Retry bool
	// After is how long the next try waits. It is 0 without Retry, and if nothing says how
	// long: then a back-off of the caller applies.
	After time.Duration
	// Person reports whether somebody must act. With Retry the step succeeds by itself
	// afterwards, without Retry the program cannot go on.
	Person bool
}

// String returns "retry", "stop" or "person", and how long a retry waits.
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

// personPace is how long a retry waits for a person if nothing says how long.
const personPace = 15 * time.Minute

// NextOf returns what to do after err: retry, stop, or tell a person. The words are those of
// [Next.String]. "RetryAfter" is that of the error, and 0 if it has none.
//
//	a read that failed, found nothing or does not decode         retry after RetryAfter
//	a read that was rejected: 403, 400 with fields               stop
//	a mutation that was not sent                                 retry after RetryAfter
//	a mutation that was rejected                                 stop
//	a mutation that was rejected with 401, 429 or Retry-After    retry after RetryAfter
//	outcome unknown or done, with an idempotency key             retry after RetryAfter
//	outcome unknown or done, without a key                       person
//	a whole response to a mutation that does not decode          person
//	an argument, a signature                                     stop
//	a sign-in that failed or is paused                           retry after the pause
//	a sign-in that was refused, or needs a two-factor code       person, retry after the pause
//	idempotency: in progress, in doubt, locked                   retry after RetryAfter or 1 minute
//	idempotency: answer lost, a later call may find it           retry after RetryAfter
//	idempotency: needs review, answer lost for good              person, retry after 15 minutes
//	idempotency: the key belongs to another request or account   stop
//	idempotency: the store failed                                retry
//	a subscription that is inactive or not saved                 person, retry after 15 minutes
//	a function that panicked                                     person, retry after 15 minutes
//	an error of a context, or of another package                 retry
//
// Of joined errors the most careful answer counts: retry only if every error allows a retry,
// after the longest wait, and with a person if any error needs one. An error of the caller can
// answer for itself with a method Next() lending.Next. The answer to nil is the zero Next.
//
// NextOf cannot see a mutation in an error that was wrapped without %w.
func NextOf(err error) Next {
	if err == nil {
		return Next{}
	}
	next := nextOf(err)
	switch {
	case !next.Retry:
		next.After = 0
	case next.Person && next.After <= 0:
		next.After = personPace
	}
	next.After = max(next.After, 0)
	return next
}

// nextOf returns the answer of the outermost errors in err that have one.
func nextOf(err error) Next {
	switch link := err.(type) { //nolint:errorlint // one link at a time
	case *signin.PausedError:
		return nextOfSignIn(link).and(Next{Retry: true, After: time.Until(link.Until)})
	case interface{ next() Next }:
		return link.next()
	case interface{ Next() Next }:
		return link.Next()
	case interface{ Unwrap() []error }:
		joined := Next{Retry: true}
		for _, inner := range link.Unwrap() {
			joined = joined.and(nextOf(inner))
		}
		return joined
	case interface{ Unwrap() error }:
		if inner := link.Unwrap(); inner != nil {
			return nextOf(inner)
		}
	}
	if failed, ok := errors.AsType[*Error](err); ok { // of an error that has an As of its own
		return failed.next()
	}
	for _, sentinel := range []error{ErrSignInRequired, ErrInactive, ErrNotSaved} {
		if errors.Is(err, sentinel) {
			return Next{Retry: true, Person: true}
		}
	}
	for _, sentinel := range []error{ErrForbidden, ErrTooLarge, ErrSignature} {
		if errors.Is(err, sentinel) {
			return Next{}
		}
	}
	happened := errors.Is(err, ErrMayHaveHappened) || errors.Is(err, ErrOutcomeUnknown)
	return Next{Retry: !happened, Person: happened}
}

// and returns the more careful of two answers in each respect.
func (n Next) and(other Next) Next {
	return Next{n.Retry && other.Retry, max(n.After, other.After), n.Person || other.Person}
}

// next returns the answer of the layer that made e, or what effect, outcome and status say.
func (e *Error) next() Next {
	retry := Next{Retry: true, After: e.RetryAfter}
	switch {
	case e.said != nil:
		return e.said.and(retry)
	case e.Outcome == OutcomeNotSent:
		return nextOfSignIn(e.cause).and(retry)
	case e.Outcome == OutcomeRejected && e.passes():
		return retry
	case e.Outcome == OutcomeRejected:
		return Next{Person: isSignIn(e.Route)} // another try could lock the account
	case e.Effect == Read && errors.Is(e, ErrTooLarge):
		return Next{}
	case e.Effect == Read, e.IdempotencyKey != "", isSignIn(e.Route):
		return retry
	}
	return Next{Person: true}
}

// passes reports whether a rejection can be another the next time.
func (e *Error) passes() bool {
	switch e.StatusCode {
	case http.StatusTooManyRequests:
		return true
	case http.StatusUnauthorized:
		return !isSignIn(e.Route)
	}
	unread := e.StatusCode == http.StatusBadRequest && e.cause != nil // without its problem, which may say that there is none
	return e.RetryAfter > 0 || e.Effect == Read && (e.StatusCode == http.StatusNotFound || e.isNotFound() || unread)
}

// isSignIn reports whether a route takes a password, a code or a token for a new token.
func isSignIn(route string) bool { return strings.HasPrefix(route, "/api/Authenication/") }

// nextOfSignIn returns the answer of a call that has no token because of err, or failed
// before it needed one.
func nextOfSignIn(err error) Next {
	person := errors.Is(err, ErrSignInRequired) || errors.Is(err, knows(OutcomeRejected)) || isRefusal(err)
	return Next{Retry: true, Person: person}
}

func (e *signInError) next() Next { return nextOfSignIn(e) }

func (*ArgumentError) next() Next { return Next{} }

func (e *DecodeError) next() Next { return Next{Retry: !e.happened(), Person: e.happened()} }

func (*PanicError) next() Next { return Next{Retry: true, Person: true} }
