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

// Placeholder replaces a secret.
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

// Describe returns the safe part of err: the outermost safe text in its tree, the kind of
// failure, or the type.
func Describe(err error) string {
	if text, ok := textOf(err); ok {
		return text
	}
	return neterr.OrType(err)
}

// IsKnown reports whether Describe returns more of err than its type.
func IsKnown(err error) bool {
	if _, safe := textOf(err); safe {
		return true
	}
	_, known := neterr.Describe(err)
	return known
}

// IsMisconfigured is [neterr.IsMisconfigured], also for the causes of hidden errors and for errors
// with the method NeedsPerson.
func IsMisconfigured(err error) bool {
	if _, ok := errors.AsType[interface {
		error
		NeedsPerson()
	}](err); ok {
		return true
	}
	if hidden, ok := errors.AsType[*hidden](err); ok && hidden.cause() != nil && IsMisconfigured(hidden.cause()) {
		return true
	}
	return neterr.IsMisconfigured(err)
}

// hidden keeps an error for errors.Is and errors.As and shows another text.
//
// The type is a [net.Error], so that errors.As for a net.Error finds it and not the cause. It
// has no Unwrap, because Unwrap would expose the cause.
type hidden struct {
	Safe
	text  string
	cause opaque.Value[error] // not a field: under %s fmt prints an error that is a string or a struct from any
	but   []error
}

// New returns an error with a safe text. errors.Is finds the cause, which may be nil, and its
// tree, except for the sentinels in but. errors.As works as [neterr.As].
func New(text string, cause error, but ...error) error {
	return &hidden{text: text, cause: opaque.Hide(cause), but: but}
}

// Hide is New with the text of Describe. Hide returns nil and errors of a context unchanged.
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

func (e *hidden) Timeout() bool { return neterr.IsTimeout(e.cause()) }

// Temporary completes net.Error.
func (e *hidden) Temporary() bool { return e.Timeout() }

func (e *hidden) Format(f fmt.State, verb rune) { _, _ = io.WriteString(f, e.text) }
