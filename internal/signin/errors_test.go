package signin_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/lendingapi/lending-go/internal/signin"
)

// The engine's errors lead to their cause and, but for a failure, which is the step's own error, do
// not show it.
func TestErrorsLeadToTheirCause(t *testing.T) {
	cause := errors.New("cause")
	const unknown = "an error of type *errors.errorString, not shown because its text may be confidential"
	for _, test := range []struct {
		err  error
		text string
	}{
		{
			&signin.PausedError{Cause: cause, Until: time.Unix(0, 0)},
			"lending: " + unknown + ": not tried again before 1970-01-01T00:00:00Z",
		},
		{&signin.StoreError{Cause: cause}, "lending: the token store: " + unknown},
		{&signin.Failure{Err: cause}, "cause"},
	} {
		t.Run(test.text, func(t *testing.T) {
			assert.EqualError(t, test.err, test.text)
			assert.ErrorIs(t, test.err, cause)
		})
	}
}
