package lendingotel

import (
	"cmp"
	"errors"
	"strconv"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// attemptsKey is the number of times that the call was sent.
const attemptsKey = attribute.Key("lending.attempts")

func callDuration(meter metric.Meter) metric.Float64Histogram {
	duration, err := meter.Float64Histogram("lending.client.call.duration", metric.WithUnit("s"),
		metric.WithDescription("Duration of calls, with their repetitions, waits and sign-ins."),
		metric.WithExplicitBucketBoundaries(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 30, 60, 120))
	if err != nil {
		otel.Handle(err) // then duration measures nothing
	}
	return duration
}

// callDescription returns the text of an error that is not a response of the service. Responses,
// also those to a sign-in, contain codes and ids of the service, which spans must not hold.
func callDescription(c lending.Call) string {
	_, refused := c.Err.(*lending.ArgumentError) //nolint:errorlint // a wrapped error is that of a sign-in
	if refused || c.Attempts > 0 && c.StatusCode == 0 {
		return c.Err.Error() // the text quotes no value
	}
	return ""
}

// callErrorType returns error.type for a failed call.
func callErrorType(c lending.Call) string {
	if c.Err == nil {
		return ""
	}
	var argument *lending.ArgumentError
	var failed *lending.Error
	var keyed *idempotency.Error
	known := kind(c.Err)
	switch {
	case errors.As(c.Err, &keyed):
		return cmp.Or(idempotencyKind(keyed), known)
	case errors.As(c.Err, &failed) && c.Attempts > 0 && refused(c.StatusCode):
		return strconv.Itoa(c.StatusCode)
	case failed != nil && c.Attempts > 0 && errors.Is(c.Err, lending.ErrNoContent):
		return "no_content"
	case failed == nil && errors.As(c.Err, &argument):
		return "argument_invalid"
	case failed != nil && errors.Is(c.Err, lending.ErrSignInRequired):
		return "sign_in_required"
	case known != semconv.ErrorTypeOther.Value.AsString():
		return known // empty if the caller canceled
	case failed != nil && c.Attempts == 0 && c.StatusCode == 0:
		return "no_token"
	case c.Outcome == lending.OutcomeDone:
		return "answer_not_decoded"
	case c.StatusCode != 0:
		return unexpected
	}
	return known
}

// idempotencyKind returns the reason for which the log did not send a mutation, or could not
// save its result. The result is empty if the error comes from a read before the mutation.
func idempotencyKind(err *idempotency.Error) string {
	switch {
	case errors.Is(err, idempotency.ErrInProgress):
		return "in_progress"
	case errors.Is(err, idempotency.ErrInDoubt):
		return "in_doubt"
	case errors.Is(err, idempotency.ErrNeedsReview):
		return "needs_review"
	case errors.Is(err, idempotency.ErrLocked):
		return "locked"
	case errors.Is(err, idempotency.ErrAnswerLost):
		return "answer_lost"
	case errors.Is(err, idempotency.ErrKeyReused):
		return "key_reused"
	case errors.Is(err, idempotency.ErrOtherAccount):
		return "other_account"
	case errors.Is(err, idempotency.ErrPaused):
		return "paused"
	case errors.Is(err, idempotency.ErrErased):
		return "erased"
	case errors.Is(err, idempotency.ErrStore):
		return "idempotency_store_failed"
	}
	return ""
}
