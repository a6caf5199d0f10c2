package lending_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/wire"
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

func TestOnlyTheErrorOfAMutationTellsItsOutcome(t *testing.T) {
	const status, process = "lending: GET /api/Application/application-status/{applicationId}",
		"lending: GET /api/Application/process-application/{applicationId}"
	for answer, test := range map[int]struct{ body, read, mutation string }{
		300: {`"Open"`, ": 300 Multiple Choices", ": outcome unknown, check with Applications.Status, Applications.Offer"},
		200: {
			`{}`, ": 200 OK: want a string, got an object",
			": it happened, the answer is lost, read Applications.Status, Applications.Offer",
		},
	} {
		t.Run(strconv.Itoa(answer), func(t *testing.T) {
			client := wire.Serve(t, wire.Answer(answer, test.body))
			_, err := client.Applications.Status(t.Context(), catalog.Application)
			require.EqualError(t, err, status+test.read)
			_, err = client.Applications.Process(t.Context(), catalog.Application)
			require.EqualError(t, err, process+strings.Replace(test.read, "string", "UUID", 1)+test.mutation)
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
