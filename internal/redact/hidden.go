package redact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/lendingapi/lending-go/internal/neterr"
	"github.com/lendingapi/lending-go/internal/opaque"
)

// Placeholder stands where a secret does not show.
const Placeholder = "[redacted]"

// Name returns s if it looks like a name, a code or an id, and [Placeholder] if it does not.
func Name(s string) string {
	odd := func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("_-.:$[]|", r))
	}
	if len(s) > 128 || strings.ContainsFunc(s, odd) {
		return Placeholder
	}
	return s
}

// Describe says what may be shown of err: the outermost safe text in it, or the kind of
// failure, or its type.
func Describe(err error) string {
	if text, ok := textOf(err); ok {
		return text
	}
	return neterr.OrType(err)
}

// IsKnown reports whether Describe says more of err than its type.
func IsKnown(err error) bool {
	_, safe := textOf(err)
	_, known := neterr.Describe(err)
	return safe || known
}

// hidden keeps an error for errors.Is and errors.As and shows another text.
//
// It is a [net.Error] itself, so that who looks for one finds this and not the error below.
// It has no Unwrap, which would lead there.
type hidden struct {
	Safe
	text  string
	cause opaque.Value[error] // not a field: under %s fmt prints an error that is a string or a struct from any
	but   []error
}

// New returns an error with a text that may be shown. errors.Is finds the cause, which may
// be nil, and what it wraps, except for the sentinels in but. errors.As finds what
// [neterr.As] does.
func New(text string, cause error, but ...error) error {
	return &hidden{text: text, cause: opaque.Hide(cause), but: but}
}

// Hide is New with the text of Describe. It returns nil for nil, and an error of a context
// as it is.
func Hide(err error, but ...error) error {
	switch err {
	case nil, context.Canceled, context.DeadlineExceeded: //nolint:errorlint // what wraps them may quote
		return err
	}
	return New(Describe(err), err, but...)
}

func (e *hidden) Error() string { return e.text }

func (e *hidden) Is(target error) bool {
	return !slices.Contains(e.but, target) && errors.Is(e.cause(), target)
}

func (e *hidden) As(target any) bool { return e.cause() != nil && neterr.As(e.cause(), target) }

// Timeout reports whether a limit on time has ended the attempt.
func (e *hidden) Timeout() bool { return neterr.IsTimeout(e.cause()) }

// Temporary is there for net.Error.
func (e *hidden) Temporary() bool { return e.Timeout() }

// Format prints the text under every verb.
func (e *hidden) Format(f fmt.State, verb rune) { _, _ = io.WriteString(f, e.text) }
