package lendingtest

import "maps"

// These limits keep the logs of the traffic from growing without end: see "Memory" in the
// package documentation.
const (
	recentRows  = 10_000
	recentBytes = 32 << 20
	rowSize     = 500 // approximate size of a row without its body
)

// recent is the end of a log, limited in rows and bytes.
type recent[T any] struct {
	rows  []T
	sizes []int
	bytes int
}

func (l *recent[T]) add(row T, size int) {
	l.rows, l.sizes, l.bytes = append(l.rows, row), append(l.sizes, size+rowSize), l.bytes+size+rowSize
	l.trim()
}

// grow adds to the size of a row.
func (l *recent[T]) grow(i, by int) {
	l.sizes[i], l.bytes = l.sizes[i]+by, l.bytes+by
	l.trim()
}

func (l *recent[T]) trim() {
	for len(l.rows) > recentRows || l.bytes > recentBytes && len(l.rows) > 1 {
		var nothing T
		l.bytes -= l.sizes[0]
		l.rows[0] = nothing // frees the row before the array is freed
		l.rows, l.sizes = l.rows[1:], l.sizes[1:]
	}
}

func (l *recent[T]) all() []T { return append([]T{}, l.rows...) }

// sweepTokens deletes expired tokens if there are many. It needs s.mu.
func (s *Service) sweepTokens() {
	if len(s.tokens) < max(s.sweepAt, recentRows) {
		return
	}
	maps.DeleteFunc(s.tokens, func(_ string, t *session) bool { return !s.now().Before(t.Expires) })
	s.sweepAt = 2 * len(s.tokens)
}
