package lendingriver

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/riverqueue/river"
)

const (
	// unsaid is how long a job sleeps when it is not known when to call again.
	unsaid = time.Minute
	// forPerson is how long it sleeps when a person has to decide.
	forPerson = 15 * time.Minute
)

// JobError returns err such that River does with the job what helps, for a Work method to
// return. errors.Is and errors.As find in it what they find in err. nil stays nil.
//
//   - The job is snoozed, which takes none of its attempts, if the error says when to call
//     again (RetryAfter of [lending.Error] and [idempotency.Error]); if it is not known yet
//     what became of the command, or of another that stands in its way
//     ([idempotency.ErrInProgress], [idempotency.ErrInDoubt], [idempotency.ErrLocked]), for a minute
//     if nothing says for how long; and if a person has to decide ([idempotency.ErrNeedsReview]),
//     for 15 minutes, again and again. So it goes on by itself after
//     [idempotency.Log.Resolve]; River's JobRetry has it go on at once.
//   - It is cancelled if all attempts would end like this one: an [*lending.ArgumentError], a
//     key of another request or account ([idempotency.ErrKeyReused],
//     [idempotency.ErrOtherAccount]), a command that the service has refused, or one that has
//     happened and whose answer is not kept or cannot be read. A 401 and a 429 do not count as
//     refused, as they pass.
//   - Anything else is returned as it is, and River tries again as its retry policy says: a
//     lost answer, a service or a log that cannot be reached, a read that finds nothing
//     yet, errors of others.
//
// What says already how to go on, because it comes from [river.JobSnooze] or
// [river.JobCancel], is returned as it is.
func JobError(err error) error {
	switch {
	case err == nil, errors.As(err, new(*river.JobSnoozeError)), errors.As(err, new(*river.JobCancelError)):
		return err
	case isFinal(err):
		return river.JobCancel(err)
	}
	if wait := waitAfter(err); wait > 0 {
		return fmt.Errorf("%w: %w", err, river.JobSnooze(wait))
	}
	return err
}

// isFinal reports whether the same request would fail again in the same way.
func isFinal(err error) bool {
	if errors.Is(err, idempotency.ErrKeyReused) || errors.Is(err, idempotency.ErrOtherAccount) {
		return true
	}
	if errors.Is(err, lending.ErrMayHaveHappened) && lending.OutcomeOf(err) == lending.OutcomeDone {
		return !errors.Is(err, idempotency.ErrStore) // or the next call finds it done
	}
	failed, isCall := errors.AsType[*lending.Error](err)
	if !isCall {
		_, isArgument := errors.AsType[*lending.ArgumentError](err)
		return isArgument
	}
	passes := failed.RetryAfter > 0 || failed.StatusCode == http.StatusUnauthorized || failed.StatusCode == http.StatusTooManyRequests
	return failed.Effect == lending.Mutation && failed.Outcome == lending.OutcomeRejected && !passes
}

// waitAfter returns how long the job is to sleep; 0 if River's retry policy says that.
func waitAfter(err error) (wait time.Duration) {
	if failed, ok := errors.AsType[*lending.Error](err); ok {
		wait = failed.RetryAfter
	}
	if refused, ok := errors.AsType[*idempotency.Error](err); ok { // it may be of a Log, and not of a call
		wait = max(wait, refused.RetryAfter)
	}
	switch {
	case wait > 0:
		return wait
	case errors.Is(err, idempotency.ErrNeedsReview):
		return forPerson
	case errors.Is(err, idempotency.ErrInProgress), errors.Is(err, idempotency.ErrInDoubt), errors.Is(err, idempotency.ErrLocked):
		return unsaid
	}
	return 0
}
