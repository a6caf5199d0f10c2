// Package recent has logs that do not grow without end: see "Memory" in the documentation of lendingtest.
package recent

// Rows is the limit in rows.
const Rows = 10_000

const (
	limit   = 32 << 20 // in bytes
	rowSize = 500      // approximate size of a row without its body
)

// Log is the end of a log, limited in rows and bytes.
type Log[T any] struct {
	rows  []T
	sizes []int
	bytes int
}

// Add adds a row with a body of this size.
func (l *Log[T]) Add(row T, size int) {
	l.rows, l.sizes, l.bytes = append(l.rows, row), append(l.sizes, size+rowSize), l.bytes+size+rowSize
	l.trim()
}

// Grow adds to the size of a row.
func (l *Log[T]) Grow(i, by int) {
	l.sizes[i], l.bytes = l.sizes[i]+by, l.bytes+by
	l.trim()
}

func (l *Log[T]) trim() {
	for len(l.rows) > Rows || l.bytes > limit && len(l.rows) > 1 {
		var nothing T
		l.bytes -= l.sizes[0]
		l.rows[0] = nothing // frees the row before the array is freed
		l.rows, l.sizes = l.rows[1:], l.sizes[1:]
	}
}

// Rows returns the rows, which are valid until the next change.
func (l *Log[T]) Rows() []T { return l.rows }

// All returns a copy of the rows.
func (l *Log[T]) All() []T { return append([]T{}, l.rows...) }
