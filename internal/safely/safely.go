// Package safely runs functions that belong to a caller: a panic or [runtime.Goexit] in one
// must not end the library's own goroutine, or the process.
package safely

import (
	"errors"
	"runtime/debug"
)

// ErrGoexit is the error of a function that called [runtime.Goexit].
var ErrGoexit = errors.New("lending: a function called runtime.Goexit")

// Call runs f in a goroutine of its own, waits, and returns the error of f. A panic of f, or
// of a method of that error, is returned as a *P, and runtime.Goexit as [ErrGoexit]. P is
// lending.PanicError, which this package cannot import.
func Call[P ~struct {
	Value any
	Stack []byte
}, E interface {
	*P
	error
}](f func() error) error {
	ended := make(chan error, 1)
	go func() {
		err := ErrGoexit
		defer func() {
			if value := recover(); value != nil {
				err = E(&P{Value: value, Stack: debug.Stack()})
			}
			ended <- err
		}()
		err = f()
		// Is and As of a nil pointer can panic. Everybody who asks the error later expects an answer.
		_ = errors.Is(err, ErrGoexit) || errors.As(err, new(E))
	}()
	return <-ended
}
