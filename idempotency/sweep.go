package idempotency

import (
	"context"
	"errors"

	"github.com/lendingapi/lending-go/idempotency/store"
)

// Sweep forgets the answers of the mutations that have been done for longer than
// KeepAnswers, and returns their number. The entries stay for ever: a mutation without one
// would be sent again. Call it about once a day, in any one of the processes. Sweep passes
// over an entry that cannot be read, and returns [store.ErrCorrupt] in the end.
func (l *Log) Sweep(ctx context.Context) (int, error) {
	s, err := l.settings()
	if err != nil {
		return 0, err
	}
	const batch = 100
	old := store.Filter{Prefix: s.stored(""), States: []store.State{store.Done}, Older: max(s.KeepAnswers, s.MaxLateness), Limit: batch}
	var corrupt error // which does not keep the others from being forgotten
	for n := 0; ; {
		entries, err := s.store.List(ctx, old)
		if err != nil && !errors.Is(err, store.ErrCorrupt) {
			return n, storeError(err)
		}
		before := n
		for i := range entries {
			data, err := readData(entries[i].Data)
			if err == nil {
				err = s.store.Save(ctx, data.swept(&entries[i]))
			}
			switch {
			case err == nil:
				n++
			case errors.Is(err, store.ErrCorrupt):
				corrupt = err
			case !errors.Is(err, store.ErrConflict):
				return n, storeError(err)
			}
		}
		if len(entries) < batch || n == before {
			return n, storeError(corrupt)
		}
	}
}
