package idempotency

import (
	"context"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency/store"
)

// Forget deletes the entries of an order that is finished, and returns their number. keys is
// what their keys begin with, and ends with a separator: "order-42/" for all keys of that order.
// Without a separator at its end it is one key: "order-4" does not mean order-42.
//
// A mutation whose entry is deleted is sent again if it is called again: call Forget only if
// nobody will call with one of these keys any more. Nothing else deletes the entry of a
// mutation.
//
// Forget deletes nothing as long as the order is not finished: if one of its mutations is in
// flight, in doubt or needs review, or can still be executed late although it was sent again.
// The error is then an [*Error] with the key, and a RetryAfter if the time is known. Forget
// leaves entries that cannot be read and returns [store.ErrCorrupt].
func (l *Log) Forget(ctx context.Context, keys string) (int, error) {
	s, err := l.settings()
	if err != nil {
		return 0, err
	}
	if keys == "" {
		return 0, argumentError("keys", lending.CodeRequired, "must not be empty")
	}
	if last, _ := utf8.DecodeLastRuneInString(keys); unicode.IsLetter(last) || unicode.IsDigit(last) {
		return s.forgetOne(ctx, s.stored(keys))
	}
	of := store.Filter{Prefix: s.stored(keys), States: allStates, Limit: pageLimit}
	for entry, err := range store.All(ctx, s.store, of) {
		if err != nil {
			return 0, storeError(err)
		}
		data, _ := readData(entry.Data)
		if err := s.unfinished(&entry, &data); err != nil {
			return 0, err
		}
	}
	return s.replace(ctx, of, s.deletion)
}

var allStates = []store.State{store.Free, store.Sent, store.InDoubt, store.NeedsReview, store.Done, store.Forgotten}

func (s *settings) forgetOne(ctx context.Context, key string) (int, error) {
	entry, err := s.store.Load(ctx, key)
	if err != nil || entry == nil {
		return 0, storeError(err)
	}
	data, err := readData(entry.Data)
	if err != nil {
		return 0, storeError(err)
	}
	deleted, err := s.deletion(entry, &data)
	if err != nil {
		return 0, err
	}
	n, err := s.store.Replace(ctx, []store.Entry{deleted})
	return n, storeError(err)
}

// deletion is what deletes an entry whose mutation is finished.
func (s *settings) deletion(entry *store.Entry, data *entryData) (store.Entry, error) {
	return store.Entry{Key: entry.Key, Revision: entry.Revision}, s.unfinished(entry, data)
}

// unfinished is why an entry is still needed, nil if only its own key needs it.
func (s *settings) unfinished(entry *store.Entry, data *entryData) error {
	e := Error{Key: strings.TrimPrefix(entry.Key, s.stored("")), kind: ErrInDoubt}
	switch idle := data.idle(entry); {
	case entry.State == store.Sent && idle < 0:
		e.kind, e.RetryAfter = ErrInProgress, -idle
	case entry.State == store.NeedsReview:
		e.kind = ErrNeedsReview
	case isInDoubt(entry.State):
	case entry.State == store.Free && entry.Lock != "" && entry.Age < reserved:
		e.kind, e.RetryAfter = ErrInProgress, reserved-entry.Age
	case entry.Lock != "" && entry.Age < data.Hold:
		e.RetryAfter, e.Why = data.Hold-entry.Age, "it was sent twice, and the first can be executed late"
	default:
		return nil
	}
	return &e
}
