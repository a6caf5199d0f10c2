package idempotency

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/opaque"
	"github.com/lendingapi/lending-go/internal/redact"
)

// hiddenError keeps an error for errors.Is and errors.As, and shows another text.
type hiddenError struct {
	safe
	text  string
	cause opaque.Value[error]
}

func (e *hiddenError) Error() string        { return e.text }
func (e *hiddenError) Is(target error) bool { return errors.Is(e.cause(), target) }

// As finds no error by an interface, which one that quotes can satisfy too.
func (e *hiddenError) As(target any) bool {
	return reflect.TypeOf(target).Elem().Kind() != reflect.Interface && errors.As(e.cause(), target)
}

// Format prints the text under every verb.
func (e *hiddenError) Format(f fmt.State, verb rune) { _, _ = io.WriteString(f, e.text) }

// hide returns err such that its text cannot quote what was sent or received.
func hide(err error) error {
	if err == nil {
		return nil
	}
	return &hiddenError{text: describe(err), cause: opaque.Hide(err)}
}

// storeError is what a store failed with, for a function that has no call.
func storeError(err error) error {
	if err == nil {
		return nil
	}
	both := errors.Join(ErrStore, err)
	return &hiddenError{text: ErrStore.Error() + ": " + describe(err), cause: opaque.Hide(both)}
}

// describe names the kind of err in words that may be shown.
func describe(err error) string {
	if text, ok := redact.TextOf(err, isOfClient); ok {
		return text
	}
	switch {
	case errors.Is(err, context.Canceled):
		return "context canceled"
	case errors.Is(err, context.DeadlineExceeded):
		return "deadline exceeded"
	}
	return fmt.Sprintf("failed (%T)", err)
}

// isOfClient reports whether err is one of the client's own, which show no value.
func isOfClient(err error) bool {
	switch err.(type) { //nolint:errorlint // what it wraps comes after
	case *lending.Error, *lending.ArgumentError, *lending.DecodeError, *lending.PageError:
		return true
	}
	return false
}
