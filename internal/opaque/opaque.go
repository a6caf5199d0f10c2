// Package opaque keeps live state and secrets out of logs and comparisons.
package opaque

// Value returns a hidden value. fmt, slog and reflect.DeepEqual walk unexported fields of
// structs, without the locks of live state, and through a pointer, but never call a function. A
// nil Value holds nothing: do not call a nil Value.
type Value[T any] func() T

// Hide returns a Value with v.
func Hide[T any](v T) Value[T] { return func() T { return v } }
