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
		{
			"unknown", errors.New("SHHH"),
			"an error of type *errors.errorString, not shown because its text may be confidential",
		},
		{"a prefix of others", &marked{text: "lending money: no"}, "lending money: no"},
	} {
		t.Run(test.name, func(t *testing.T) {
			assert.Equal(t, test.want, redact.Describe(test.err))
			assert.Equal(t, test.name != "unknown", redact.IsKnown(test.err))
		})
	}
}

func TestNameHidesWhatIsNone(t *testing.T) {
	for _, test := range []struct {
		name, shown string
	}{
		{"azAZ09_-.:$[]|", "azAZ09_-.:$[]|"},
		{strings.Repeat("n", 128), strings.Repeat("n", 128)},
		{strings.Repeat("n", 129), redact.Placeholder},
		{"Ada Lovelace", redact.Placeholder},
		{"a@example", redact.Placeholder},
		{"a/b", redact.Placeholder},
		{"`a`", redact.Placeholder},
		{"{a}", redact.Placeholder},
		{"é", redact.Placeholder},
	} {
		t.Run(test.name, func(t *testing.T) { assert.Equal(t, test.shown, redact.Name(test.name)) })
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

// A text shows the words that tests use, and no other.
func TestPlain(t *testing.T) {
	type quoting struct{ error }
	for _, test := range []struct {
		name, want string
		err        error
	}{
		{
			"words", "Mock: requested interaction (POST) isn't found",
			errors.New("Mock: requested interaction (POST) isn't found"),
		},
		{"innermost", "no stub", fmt.Errorf("SHHH: %w", errors.New("no stub"))},
		{"values", "no stub for [redacted] found", errors.New("no stub for Ada Lovelace 42 found")},
		{"formatted", "no stub for [redacted]", fmt.Errorf("no stub for %s", "SHHH")},
		{"long", "no" + strings.Repeat(" call no", 9) + " call", errors.New(strings.Repeat("no call ", 20))},
		{"no common word", "", errors.New("SHHH, shhh")},
		{"another type", "", quoting{errors.New("no stub")}},
	} {
		t.Run(test.name, func(t *testing.T) { assert.Equal(t, test.want, redact.Plain(test.err)) })
	}
}
