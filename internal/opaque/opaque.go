// Package opaque keeps live state and secrets out of logs and comparisons.
package opaque

// Value returns a value that nothing else can see. fmt, slog and reflect.DeepEqual walk
// unexported fields of structs, without the locks of live state, and through one pointer.
// They do not look behind a function. A nil Value holds nothing: do not call it.
type Value[T any] func() T

// Hide returns a Value that holds v.
func Hide[T any](v T) Value[T] { return func() T { return v } }
