// Package safely runs functions of a caller. A panic or [runtime.Goexit] there must not end the
// library's own goroutine, or the process.
package safely

import (
	"errors"
	"runtime/debug"
)

// ErrGoexit is the error of a function with a call of [runtime.Goexit].
var ErrGoexit = errors.New("lending: a function called runtime.Goexit")

// Call runs f in a goroutine of its own, waits, and returns the error of f. After a panic of f,
// or of a method of its error, Call returns a *P, and after runtime.Goexit [ErrGoexit]. P is
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
