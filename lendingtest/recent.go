package lendingtest

import "maps"

// What a service remembers of its traffic. With a minute of many hundred requests a
// second it must not grow for ever: see "Memory" in the package documentation.
const (
	recentRows  = 10_000
	recentBytes = 32 << 20
	rowSize     = 500 // of a row beside its body, about
)

// recent is the end of a log: as many rows as there may be, and as many bytes.
type recent[T any] struct {
	rows  []T
	sizes []int
	bytes int
}

func (l *recent[T]) add(row T, size int) {
	l.rows, l.sizes, l.bytes = append(l.rows, row), append(l.sizes, size+rowSize), l.bytes+size+rowSize
	l.trim()
}

// grow notes that a row has become larger.
func (l *recent[T]) grow(i, by int) {
	l.sizes[i], l.bytes = l.sizes[i]+by, l.bytes+by
	l.trim()
}

func (l *recent[T]) trim() {
	for len(l.rows) > recentRows || l.bytes > recentBytes && len(l.rows) > 1 {
		var nothing T
		l.bytes -= l.sizes[0]
		l.rows[0] = nothing // the array lives on until it is full
		l.rows, l.sizes = l.rows[1:], l.sizes[1:]
	}
}

func (l *recent[T]) all() []T { return append([]T{}, l.rows...) }

// sweepTokens forgets tokens that expired, once there are many. It needs s.mu.
func (s *Service) sweepTokens() {
	if len(s.tokens) < max(s.sweepAt, recentRows) {
		return
	}
	maps.DeleteFunc(s.tokens, func(_ string, t *session) bool { return !s.now().Before(t.Expires) })
	s.sweepAt = 2 * len(s.tokens)
}
