package idempotency

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency/store"
)

// lockFor returns the hashed name of the lock of the mutation, or "" for no lock.
func (s *settings) lockFor(row route, call *lending.MutationCall) string {
	if row.lock == nil {
		return ""
	}
	name := row.lock(call)
	if name == "" {
		return ""
	}
	return hashed(s.stored(name))
}

// hashed returns a hash of text, for comparisons only.
func hashed(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// adds reports whether the next mutation of the lock needs the new records of this mutation.
func (k *keyedCall) adds() bool { return k.row.adds && k.lock != "" }

// reserve takes the lock before the check. If another mutation then takes the lock, this entry's
// revision changes and the send is aborted. Otherwise the check could be older than the effect
// of the other mutation, and take that effect for its own.
func (k *keyedCall) reserve(ctx context.Context) error {
	if k.lock == k.entry.Lock {
		return nil
	}
	err := k.save(ctx, store.Free, k.lock)
	if held, isHeld := errors.AsType[*store.LockedError](err); isHeld {
		return k.release(ctx, held.Key)
	}
	return k.unsaved(err)
}

// release takes the lock from the mutation of another key if the other mutation no longer needs
// the lock. It ends the doubt about the other mutation if a read can. If the lock is free, it
// returns ErrConflict, and the call starts again.
func (k *keyedCall) release(ctx context.Context, key string) error {
	other, err := k.store.Load(ctx, key)
	if err != nil {
		return k.unsaved(err)
	}
	if other == nil || other.Lock == "" {
		return store.ErrConflict
	}
	held := Error{kind: ErrLocked, Held: strings.TrimPrefix(key, k.stored(""))}
	of, err := readData(other.Data)
	switch isReserved := other.State == store.Free && !of.Verdict.Correctable && other.Age < reserved; {
	case err != nil:
		return k.refuse(held)
	case isInDoubt(other.State) && (!of.Doubt.Happened || of.Send.Open || of.canRebuild()):
		return k.releaseInDoubt(ctx, other, &of, held)
	case other.Age < of.Hold:
		held.RetryAfter = of.Hold - other.Age
		held.Why = "the service can still execute the first of two sends, or reads do not show the effect yet"
		return k.refuse(held)
	case isReserved:
		held.RetryAfter, held.Why = min(reserved-other.Age, time.Second), "the other mutation is about to be sent"
		return k.refuse(held)
	}
	other.Lock = ""
	return cmp.Or(k.unsaved(k.store.Save(ctx, *other)), store.ErrConflict)
}

// releaseInDoubt is release for a mutation in doubt. The mutation needs its lock while the
// service can execute it, and until a read shows a response that was lost: next to the records of
// another mutation, nobody could tell which is whose. After that time a person may have to
// decide, but the lock is free.
func (k *keyedCall) releaseInDoubt(ctx context.Context, other *store.Entry, of *entryData, held Error) error {
	idle := of.idle(other)
	late := k.MaxLateness - idle
	if held.RetryAfter = -idle; held.RetryAfter > 0 {
		return k.refuse(held)
	}
	f, err := finding{}, error(nil)
	if k.isOf(of.Request.Account, k.call.Account()) {
		f, err = k.endOther(ctx, k.call.Client(), other, of)
	}
	switch {
	case errors.Is(err, store.ErrConflict),
		err == nil && (f.evidence == happened || f.evidence == absent && late <= 0 && !of.Doubt.Happened):
		return store.ErrConflict
	case err != nil || late > 0:
		held.cause, held.RetryAfter = err, recheck(idle, max(late, k.MaxLateness/2))
		return k.refuse(held)
	}
	return cmp.Or(k.unsaved(k.toReview(ctx, other, of, f.why)), store.ErrConflict)
}

// toReview records that a mutation needs a review, and frees its lock. The caller makes sure
// that the service can no longer execute the mutation.
func (s *settings) toReview(ctx context.Context, entry *store.Entry, d *entryData, why string) error {
	d.Doubt.Why = cmp.Or(d.Doubt.Why, why, "another mutation has taken its lock")
	d.Send.Before = nil // the count is wrong as soon as another mutation has the lock
	d.Verdict = decision{}
	d.addWait(entry, store.NeedsReview)
	entry.State, entry.Lock, entry.Data = store.NeedsReview, "", d.bytes()
	return s.store.Save(ctx, *entry)
}
