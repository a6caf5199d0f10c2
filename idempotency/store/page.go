package store

import (
	"context"
	"iter"
	"strconv"
	"strings"
)

// Position is the place of an entry in the order of [Store.List]. Stores make positions with
// [PositionAt]. For other code a position is an opaque text; the text contains the key.
type Position string

// PositionAt returns the position of an entry with this key and time of its save. The store
// chooses the unit of the time, or uses a counter.
func PositionAt(at uint64, key string) Position {
	return Position(strconv.FormatUint(at, 16) + "-" + key)
}

// At returns the arguments of [PositionAt]. For the empty position they are 0 and "".
func (p Position) At() (at uint64, key string, err error) {
	if p == "" {
		return 0, "", nil
	}
	count, key, ok := strings.Cut(string(p), "-")
	at, err = strconv.ParseUint(count, 16, 64)
	if err != nil || !ok {
		return 0, "", ErrPosition
	}
	return at, key, nil
}

// All returns all entries that filter selects, page by page. The first error ends the sequence.
func All(ctx context.Context, s Store, filter Filter) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for {
			page, err := s.List(ctx, filter)
			for _, entry := range page {
				if !yield(entry, nil) {
					return
				}
				filter.After = entry.Position
			}
			if err != nil {
				yield(Entry{}, err)
				return
			}
			if len(page) == 0 {
				return
			}
		}
	}
}
