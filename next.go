package lending

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/lendingapi/lending-go/internal/redact"
	"github.com/lendingapi/lending-go/internal/signin"
	"github.com/lendingapi/lending-go/internal/verdict"
)

// personPace is the wait of a retry with Person if the error has none.
const personPace = 15 * time.Minute

// NextOf returns the next step after err: retry, stop, or tell a person. The table uses the
// words of [Next.String]. RetryAfter is the field of the error, 0 without one.
//
//	a read that failed, found nothing or does not decode         retry after RetryAfter
//	a read that was rejected: 403, 400 with fields               stop
//	a mutation that was not sent                                 retry after RetryAfter
//	a mutation that was rejected                                 stop
//	a mutation that was rejected with 401, 429 or Retry-After    retry after RetryAfter
//	a mutation that was rejected, with a truncated body          retry
//	a 415 or 400 because a nil request record is refused         stop
//	a 4xx without a problem record, with an idempotency key      retry after 30 seconds
//	a 4xx with HTML to a sign-in                                 retry after 30 seconds
//	a 4xx without a problem record to another mutation           person
//	outcome unknown or done, with an idempotency key             retry after RetryAfter
//	outcome unknown or done, without a key                       person
//	a whole response to a mutation that does not decode          person
//	an upload whose content was read and cannot seek back        stop, or person if it may have happened
//	an argument, a signature                                     stop
//	a token, or a header of WithHeader, that cannot be sent      person, retry after 15 minutes
//	a sign-in that failed or is paused                           retry after the pause
//	a sign-in that was refused, or needs a two-factor code       person, retry after the pause
//	idempotency: another call is in flight                       retry
//	idempotency: in doubt, locked, paused                        retry after RetryAfter or 1 minute
//	idempotency: answer lost, a later call may find it           retry after RetryAfter
//	idempotency: needs review, answer lost for good              person, retry after 15 minutes
//	idempotency: the key belongs to another request              stop
//	idempotency: the key belongs to another account              person, retry after 15 minutes
//	idempotency: the store failed                                retry
//	a store without its tables, rights or sign-in                person, retry after 15 minutes
//	a subscription that is inactive                              person, retry after 15 minutes
//	a function that panicked                                     person, retry after 15 minutes
//	an error of a context, or of another package                 retry
//
// After "stop" the same request fails again: the order is over, unless its request is corrected.
// docs/workflows.md lists these ends. After "retry" the same call can succeed.
//
// For joined errors NextOf returns the most careful decision: Retry only if every error allows a
// retry, the longest wait, and Person if any error needs a person. Your own error type can
// decide with a method Next() lending.Next. For nil, NextOf returns the zero Next, and for a nil
// pointer in the error, a mistake of the program, a person.
//
// Wrap errors with %w. NextOf cannot see a mutation in an error that was wrapped without %w.
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

// nextOf returns the decision of the outermost errors in err that have one.
func nextOf(err error) Next {
	if isNilPointer(err) {
		return Next{Person: true}
	}
	switch link := err.(type) { //nolint:errorlint // each link of the chain in turn
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
	if failed, ok := errors.AsType[*Error](err); ok { // an error with its own As method
		return failed.next()
	}
	for _, sentinel := range []error{ErrSignInRequired, ErrInactive} {
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
	return Next{Retry: !happened, Person: happened || redact.IsMisconfigured(err)}
}

// and returns the more careful decision in each field.
func (n Next) and(other Next) Next {
	return Next{n.Retry && other.Retry, max(n.After, other.After), n.Person || other.Person}
}

// next returns the decision of the idempotency layer if that made e. Otherwise the effect, the
// outcome and the status decide.
func (e *Error) next() Next {
	retry := Next{Retry: true, After: e.RetryAfter}
	switch {
	case e.said != nil:
		return e.said.and(retry)
	case e.Outcome == OutcomeNotSent:
		return nextOfSignIn(e.cause).and(retry)
	case e.Outcome == OutcomeRejected && e.passes():
		return retry
	case e.Outcome == OutcomeRejected && e.isOfGateway() && (e.IdempotencyKey != "" || isSignIn(e.Route)):
		return retry.and(Next{Retry: true, After: gatewayPace})
	case e.Outcome == OutcomeRejected: // another sign-in could lock the account
		return Next{Person: isSignIn(e.Route) || e.isOfGateway()}
	case e.Effect == Read && errors.Is(e, ErrTooLarge):
		return Next{}
	case e.Effect == Read, e.IdempotencyKey != "", isSignIn(e.Route):
		return retry
	}
	return Next{Person: true}
}

// passes reports whether the same request may succeed later.
func (e *Error) passes() bool {
	switch e.StatusCode {
	case http.StatusTooManyRequests:
		return true
	case http.StatusUnauthorized:
		return !isSignIn(e.Route)
	}
	if e.Effect == Mutation {
		return e.RetryAfter > 0 || e.isCut() && !isSignIn(e.Route)
	}
	// A cut 400 lost its problem record, which may report a missing record.
	unread := e.StatusCode == http.StatusBadRequest && e.cause != nil
	return e.RetryAfter > 0 || e.StatusCode == http.StatusNotFound || e.isNotFound() || unread
}

// isCut reports whether the connection broke in the problem record of a rejection. The same request
// gets the reason.
func (e *Error) isCut() bool {
	return e.cause != nil && !errors.Is(e.cause, errHTML) && !errors.Is(e.cause, ErrTooLarge) && !e.isOfGateway()
}

// gatewayPace is the wait before a request that a gateway refused.
const gatewayPace = 30 * time.Second

func (e *Error) isOfGateway() bool { return errors.Is(e.cause, verdict.ErrGateway) }

// isSignIn reports whether a route issues a token for a password, a code or an older token.
func isSignIn(route string) bool { return strings.HasPrefix(route, "/api/Authenication/") }

// nextOfSignIn returns the decision for a call that got no token because of err, or failed
// before it needed a token.
func nextOfSignIn(err error) Next {
	_, panicked := errors.AsType[*PanicError](err)
	person := panicked || errors.Is(err, ErrSignInRequired) || errors.Is(err, knows(OutcomeRejected)) || isRefusal(err)
	return Next{Retry: true, Person: person}
}

// isRefusal reports whether the service has rejected a sign-in. The refusal of a gateway says nothing of the password.
func isRefusal(err error) bool {
	failed, ok := errors.AsType[*Error](err)
	return ok && failed.Outcome == OutcomeRejected && failed.StatusCode != http.StatusTooManyRequests && !failed.isOfGateway()
}

func (e *ArgumentError) next() Next { return Next{Retry: e.ofClient, Person: e.ofClient} }

func (e *DecodeError) next() Next { return Next{Retry: !e.happened(), Person: e.happened()} }

func (*PanicError) next() Next { return Next{Retry: true, Person: true} }
