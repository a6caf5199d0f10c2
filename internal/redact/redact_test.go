package redact_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/internal/redact"
)

// marked is an error of this module, around another or none.
type marked struct {
	redact.Safe
	text  string
	cause error
}

func (m *marked) Error() string { return m.text }
func (m *marked) Unwrap() error { return m.cause }

// The outermost safe text is shown, and of an error of others its kind or its type.
func TestDescribe(t *testing.T) {
	inner := &marked{text: "lending: inner", cause: io.EOF}
	for _, test := range []struct {
		name string
		err  error
		want string
	}{
		{"safe", inner, "inner"},
		{"outermost of two", &marked{text: "lending/webhook: outer", cause: inner}, "outer"},
		{"safe inside another's", fmt.Errorf("SHHH: %w", inner), "inner"},
		{"first of a join", errors.Join(errors.New("SHHH"), &marked{text: "first"}, inner), "first"},
		{"outer before a sibling's inner", errors.Join(fmt.Errorf("SHHH %w", inner), &marked{text: "second"}), "inner"},
		{"hidden", fmt.Errorf("SHHH: %w", redact.New("shown", inner)), "shown"},
		{"text", fmt.Errorf("SHHH: %w", redact.Text("no content")), "no content"},
		{"safe before its kind", errors.Join(context.Canceled, inner), "inner"},
		{"of a context", fmt.Errorf("SHHH: %w", context.Canceled), "context canceled"},
		{"of the network", &net.OpError{Op: "dial", Err: errors.New("SHHH")}, "cannot connect"},
		{"unknown", errors.New("SHHH"), "failed (*errors.errorString)"},
		{"a prefix of others", &marked{text: "lending money: no"}, "lending money: no"},
	} {
		t.Run(test.name, func(t *testing.T) {
			assert.Equal(t, test.want, redact.Describe(test.err))
			assert.Equal(t, test.name != "unknown", redact.IsKnown(test.err))
		})
	}
}

// refused is an answer of PostgreSQL.
type refused struct{ error }

func (refused) SQLState() string { return "42P01" }

func TestMisconfigurationIsSeenInAHiddenError(t *testing.T) {
	missing := refused{errors.New("SHHH")}
	for _, err := range []error{missing, redact.New("shown", missing), redact.New("outer", redact.New("inner", missing))} {
		assert.True(t, redact.IsMisconfigured(err))
	}
	for _, err := range []error{io.EOF, redact.New("shown", io.EOF), redact.New("shown", nil)} {
		assert.False(t, redact.IsMisconfigured(err))
	}
	timeout, ok := errors.AsType[net.Error](redact.New("shown", context.DeadlineExceeded))
	assert.True(t, ok && timeout.Timeout() && timeout.Temporary()) //nolint:staticcheck // completes net.Error
}

type ownError struct{ text string }

func (e ownError) Error() string { return e.text }

// TestHide holds what errors.Is and errors.As find in a hidden error, and fmt finds nothing.
func TestHide(t *testing.T) {
	sentinel, barred := errors.New("sentinel"), errors.New("barred")
	cause := fmt.Errorf("%w %w %w", ownError{"SHHH"}, sentinel, barred)
	hidden := redact.Hide(cause, barred)
	require.ErrorIs(t, hidden, sentinel)
	assert.NotErrorIs(t, hidden, barred)
	var own ownError
	require.ErrorAs(t, hidden, &own)
	var unwraps interface{ Unwrap() []error }
	assert.NotErrorAs(t, hidden, &unwraps)
	var network net.Error
	require.ErrorAs(t, hidden, &network)
	assert.Equal(t, hidden, network, "itself")
	for verb := range strings.FieldsSeq("%v %+v %#v %s %q %d %x %t") {
		assert.NotContains(t, fmt.Sprintf(verb, hidden), "SHHH", verb)
		assert.NotContains(t, fmt.Sprintf(verb, struct{ err error }{hidden}), "SHHH", verb)
	}

	require.NoError(t, redact.Hide(nil))
	assert.Equal(t, context.Canceled, redact.Hide(context.Canceled))
	none := redact.New("shown", nil)
	assert.NotErrorAs(t, none, &own)
	assert.NotErrorIs(t, none, sentinel)
}
