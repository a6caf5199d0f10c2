package idempotency

import (
	"context"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency/store"
)

// Resolution is what a person, or a program in a person's place, has found out.
type Resolution struct {
	By      string  // required: who says so
	Why     string  // required: how it was found out
	Verdict Verdict // [Happened] or [NotHappened]
}

// Resolve ends the doubt about a mutation. After [Happened] calls with the key return its
// answer; after [NotHappened] the next call sends the mutation.
//
// It fails with [ErrInProgress] while the mutation may be in flight, with [ErrInDoubt] if
// NotHappened comes before MaxLateness is over, and with a [*lending.ArgumentError] if nothing
// is in doubt. The entry keeps who and why.
func (l *Log) Resolve(ctx context.Context, key string, r Resolution) error {
	s, err := l.settings()
	if err != nil {
		return err
	}
	v := r.Verdict.verdict()
	var c arguments
	c.that(key != "", "key", lending.CodeRequired, "must not be empty")
	c.that(r.By != "", "By", lending.CodeRequired, "must not be empty")
	c.that(r.Why != "", "Why", lending.CodeRequired, "must not be empty")
	c.that(v.happened || v.absent, "Verdict", lending.CodeRequired, "must be Happened or NotHappened")
	c.that(v.err == nil, "Verdict", lending.CodeEncoding, "must hold an answer that can be written as JSON")
	if err := c.err(); err != nil {
		return err
	}
	entry, err := s.store.Load(ctx, s.stored(key))
	switch {
	case err != nil:
		return storeError(err)
	case entry == nil || !isInDoubt(entry.State) && entry.State != store.Forgotten:
		return argumentError("key", lending.CodeConflict, "must be that of a mutation in doubt")
	}
	data, err := readData(entry.Data)
	if err != nil {
		return storeError(err)
	}
	idle := data.idle(entry)
	switch {
	case v.absent && (data.Happened || entry.State == store.Forgotten):
		return argumentError("Verdict", lending.CodeConflict, "must be Happened: the service has answered that it is done")
	case idle < 0:
		return &Error{Key: key, kind: ErrInProgress, RetryAfter: -idle}
	case v.absent && idle < s.MaxLateness:
		return &Error{Key: key, kind: ErrInDoubt, Why: "it can be executed late", RetryAfter: s.MaxLateness - idle}
	}
	if v.happened && entry.Lock != "" && data.Adds != 0 {
		if err := s.remember(ctx, entry.Lock, data.left(v.answer)); err != nil {
			return storeError(err)
		}
	}
	data.Why, data.ResolvedBy = r.Why, r.By
	return storeError(s.store.Save(ctx, data.ended(entry, v, s.MaxAnswer)))
}
