package idempotency

import (
	"context"

	"github.com/lendingapi/lending-go/idempotency/store"
)

// pageLimit is the size of a page of Sweep and Forget.
const pageLimit = 1000

// Sweep removes the responses of mutations that were done longer than KeepAnswers ago, and
// returns their number. Call Sweep about once a day, in any of the processes.
//
// The entries stay, because a mutation without an entry would be sent again. [Log.Forget]
// deletes the entries of a finished order. Sweep also deletes expired entries of locks.
//
// Sweep reads and writes pages of at most [store.PageBytes]. Sweep skips an unreadable entry and
// returns [store.ErrCorrupt] at the end.
func (l *Log) Sweep(ctx context.Context) (int, error) {
	s, err := l.settings()
	if err != nil {
		return 0, err
	}
	done := store.Filter{Prefix: s.stored(""), States: []store.State{store.Done}, Older: max(s.KeepAnswers, s.MaxLateness)}
	forgotten, err := s.replace(ctx, done, func(entry *store.Entry, data *entryData) (store.Entry, error) {
		return data.swept(entry), nil
	})
	// Only the mutation that has the lock reads or writes the remembered entry of the lock. So
	// no mutation overwrites a newer entry after this deletion.
	remembered := store.Filter{Prefix: s.rememberedPrefix(), States: []store.State{store.Free}, Older: s.MaxLateness}
	_, failed := s.replace(ctx, remembered, deleted)
	return forgotten, errorOr(err, failed)
}

func deleted(entry *store.Entry, _ *entryData) (store.Entry, error) {
	return store.Entry{Key: entry.Key, Revision: entry.Revision}, nil
}

// replace replaces all entries that filter selects, and returns their number. It skips an entry
// that cannot be read, or for which next returns an error.
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

// errorOr returns the first error. The errors of further entries add no information.
func errorOr(first, err error) error {
	if first != nil {
		return first
	}
	return err
}
