package signin_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lendingapi/lending-go/internal/signin"
)

// TestErrorsLeadToTheirCause holds that the engine's errors lead to their cause and, but for a
// failure, which is the step's own error, do not show it.
func TestErrorsLeadToTheirCause(t *testing.T) {
	cause := errors.New("cause")
	for _, test := range []struct {
		err  error
		text string
	}{
		{&signin.PausedError{Cause: cause}, "not tried again yet"},
		{&signin.StoreError{Cause: cause}, "the token store failed"},
		{&signin.Failure{Err: cause}, "cause"},
	} {
		t.Run(test.text, func(t *testing.T) {
			assert.EqualError(t, test.err, test.text)
			assert.ErrorIs(t, test.err, cause)
		})
	}
}
