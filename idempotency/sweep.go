package idempotency

import (
	"context"

	"github.com/lendingapi/lending-go/idempotency/store"
)

// pageLimit is how many entries Sweep and Forget read and write together.
const pageLimit = 1000

// Sweep forgets the answers of the mutations that have been done for longer than
// KeepAnswers, and returns their number. Their entries stay as tombstones: a mutation without
// an entry would be sent again. [Log.Forget] deletes the entries of an order that is finished.
// Sweep also deletes what the log has remembered of locks for MaxLateness.
//
// Call Sweep about once a day, in any one of the processes. It reads and writes entries by the
// page, of [store.PageBytes] at most. It passes over an entry that cannot be read, and
// returns [store.ErrCorrupt] in the end.
func (l *Log) Sweep(ctx context.Context) (int, error) {
	s, err := l.settings()
	if err != nil {
		return 0, err
	}
	done := store.Filter{Prefix: s.stored(""), States: []store.State{store.Done}, Older: max(s.KeepAnswers, s.MaxLateness)}
	forgotten, err := s.replace(ctx, done, func(entry *store.Entry, data *entryData) (store.Entry, error) {
		return data.swept(entry), nil
	})
	// A mutation that reads or writes what is remembered of its lock has the lock. So nobody
	// has read an entry that is deleted here, and writes it when another has begun it anew.
	remembered := store.Filter{Prefix: s.rememberedPrefix(), States: []store.State{store.Free}, Older: s.MaxLateness}
	_, failed := s.replace(ctx, remembered, deleted)
	return forgotten, errorOr(err, failed)
}

func deleted(entry *store.Entry, _ *entryData) (store.Entry, error) {
	return store.Entry{Key: entry.Key, Revision: entry.Revision}, nil
}

// replace replaces all entries that filter selects, and returns their number. It passes over
// an entry that cannot be read, or that next has an error for.
func (s *settings) replace(ctx context.Context, filter store.Filter, next func(*store.Entry, *entryData) (store.Entry, error)) (n int, failed error) {
	filter.Limit = pageLimit
	for {
		page, err := s.store.List(ctx, filter)
		if err != nil || len(page) == 0 {
			return n, errorOr(storeError(err), failed)
		}
		filter.After = page[len(page)-1].Position
		entries := page[:0]
		for _, entry := range page {
			data, err := readData(entry.Data)
			if err = storeError(err); err == nil {
				entry, err = next(&entry, &data)
			}
			if failed = errorOr(failed, err); err == nil {
				entries = append(entries, entry)
			}
		}
		replaced, err := s.store.Replace(ctx, entries)
		if n += replaced; err != nil {
			return n, storeError(err)
		}
	}
}

// errorOr keeps the first error: the others of many entries say the same.
func errorOr(first, err error) error {
	if first != nil {
		return first
	}
	return err
}
