package store

import (
	"context"
	"iter"
	"strconv"
	"strings"
)

// Position is the place of an entry in the order of [Store.List]. Stores make it with
// [PositionAt]; for everybody else it is a text without a meaning, which holds the key.
type Position string

// PositionAt returns the position of the entry of key, which was saved at that time. The
// store counts the time as it likes.
func PositionAt(at uint64, key string) Position {
	return Position(strconv.FormatUint(at, 16) + "-" + key)
}

// At returns what [PositionAt] was given, and 0 and "" for the empty position.
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

// All returns all entries that filter selects, page after page. An error ends it.
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
