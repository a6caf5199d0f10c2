package lending_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lendingapi/lending-go"
)

// TestNilPointerInAnErrorIsUnknown: an error variable that holds a nil pointer is a mistake of the
// program, and says nothing about the mutation.
func TestNilPointerInAnErrorIsUnknown(t *testing.T) {
	for _, err := range []error{
		(*lending.Error)(nil), (*lending.PageError)(nil), (*lending.DecodeError)(nil), (*lending.ArgumentError)(nil),
		(*lending.PanicError)(nil), (*lending.TwoFactorRequiredError)(nil),
	} {
		t.Run(fmt.Sprintf("%T", err), func(t *testing.T) {
			assert.Equal(t, lending.Next{Person: true}, lending.NextOf(err))
			assert.Equal(t, lending.Next{Person: true}, lending.NextOf(errors.Join(errors.New("other"), err)))
			assert.Equal(t, lending.OutcomeUnknown, lending.OutcomeOf(err))
			assert.False(t, lending.IsNotFound(err))
		})
	}
}

// wrapsByAs has no Unwrap.
type wrapsByAs struct{ inner *lending.Error }

func (wrapsByAs) Error() string { return "the order failed" }

func (e wrapsByAs) As(target any) bool {
	found, ok := target.(**lending.Error)
	if ok {
		*found = e.inner
	}
	return ok
}

func TestErrorWithAnAsOfItsOwnTellsTheOutcome(t *testing.T) {
	for _, outcome := range []lending.Outcome{lending.OutcomeNotSent, lending.OutcomeRejected, lending.OutcomeUnknown} {
		t.Run(outcome.String(), func(t *testing.T) {
			err := wrapsByAs{&lending.Error{Effect: lending.Mutation, Outcome: outcome}}
			assert.Equal(t, outcome, lending.OutcomeOf(err))
			assert.Equal(t, outcome, lending.OutcomeOf(fmt.Errorf("order 7: %w", err)))
		})
	}
}

func TestNoResponseToCaptureInto(t *testing.T) {
	var outer lending.Response
	ctx := lending.CaptureResponse(t.Context(), &outer)
	assert.Equal(t, ctx, lending.CaptureResponse(ctx, nil))
}
