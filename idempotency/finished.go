package idempotency

import (
	"context"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency/store"
)

// Forget deletes the entries of a finished order, and returns their number. keys is the common
// prefix of the keys with a separator at the end, for example "order-42/". Without a separator,
// keys is one key: "order-4" does not match order-42.
//
// A later call with a deleted key sends the mutation again. So call Forget only if no program
// uses the keys any more: days after the end of the order, and never in the function that makes
// its mutations, because a late repetition would send them again. No other function deletes the
// entry of a mutation.
//
// Forget deletes nothing while a mutation of the order is in flight, in doubt or needs a review,
// or while the service can still execute an earlier send. The error is then an [*Error] with the
// key, and with RetryAfter if the wait is known. Forget leaves unreadable entries and returns
// [store.ErrCorrupt].
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

// deletion returns the entry that deletes a finished entry in [store.Store.Replace].
func (s *settings) deletion(entry *store.Entry, data *entryData) (store.Entry, error) {
	return store.Entry{Key: entry.Key, Revision: entry.Revision}, s.unfinished(entry, data)
}

// unfinished returns the reason if the entry of a mutation must stay.
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
		e.RetryAfter, e.Why = data.Hold-entry.Age, "the service can still execute the first of two sends"
	default:
		return nil
	}
	return &e
}
