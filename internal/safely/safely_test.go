package safely_test

import (
	"errors"
	"io"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/internal/safely"
)

type panicError struct {
	Value any
	Stack []byte
}

func (*panicError) Error() string { return "panic" }

type nilError struct{ wrapped error }

func (e *nilError) Error() string { return "nil" }
func (e *nilError) Unwrap() error { return e.wrapped }

func TestCall(t *testing.T) {
	require.NoError(t, safely.Call[panicError](func() error { return nil }))
	require.Equal(t, io.EOF, safely.Call[panicError](func() error { return io.EOF }))
	require.Equal(t, safely.ErrGoexit, safely.Call[panicError](func() error {
		runtime.Goexit()
		return nil
	}))
	for _, tt := range []struct {
		name string
		f    func() error
	}{
		{"panic", func() error { panic("no") }},
		{"panic with nil", func() error { panic(nil) }},
		{"an error whose methods panic", func() error { return (*nilError)(nil) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err, ok := errors.AsType[*panicError](safely.Call[panicError](tt.f))
			require.True(t, ok)
			require.NotNil(t, err.Value)
			require.Contains(t, string(err.Stack), "safely_test.go")
		})
	}
}
