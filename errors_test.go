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

func TestNoResponseToCaptureInto(t *testing.T) {
	var outer lending.Response
	ctx := lending.CaptureResponse(t.Context(), &outer)
	assert.Equal(t, ctx, lending.CaptureResponse(ctx, nil))
}
