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

// lockFor returns the name of the lock that the mutation takes, hashed; "" for none.
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

// hashed is a text of which only equality is of interest.
func hashed(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// adds reports whether the next mutation of the lock must know what this one has left.
func (k *keyedCall) adds() bool { return k.row.adds && k.lock != "" }

// reserve takes the lock before the check. If another mutation takes the lock, it changes
// this entry, and this mutation is not sent: its check before could be older than the end
// of the other, whose effect would be taken for its own.
func (k *keyedCall) reserve(ctx context.Context) error {
	lock := k.lock
	if lock == k.entry.Lock {
		return nil
	}
	err := k.save(ctx, store.Free, lock)
	if held, isHeld := errors.AsType[*store.LockedError](err); isHeld {
		return k.release(ctx, held.Key)
	}
	return k.unsaved(err)
}

// release takes the lock from the mutation of another key, if that no longer needs it: what its
// owner has left is ended here if a read can. It returns a conflict then.
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
	switch {
	case err != nil:
		return k.refuse(held)
	case isInDoubt(other.State) && (!of.Happened || of.Open):
		return k.takeFrom(ctx, other, &of, held)
	}
	if held.RetryAfter = of.Hold - other.Age; held.RetryAfter > 0 {
		held.Why = "it was sent twice, and the first can be executed late, or reads may not show it yet"
		return k.refuse(held)
	}
	if held.RetryAfter = min(reserved-other.Age, time.Second); other.State == store.Free && of.Verdict == nil && held.RetryAfter > 0 {
		held.Why = "it is about to be sent"
		return k.refuse(held)
	}
	other.Lock = ""
	return cmp.Or(k.unsaved(k.store.Save(ctx, *other)), store.ErrConflict)
}

// takeFrom is release for a mutation in doubt. It needs its lock for as long as it can be
// executed. Then a person may still be needed, but nobody has to wait for him.
func (k *keyedCall) takeFrom(ctx context.Context, other *store.Entry, of *entryData, held Error) error {
	idle := of.idle(other)
	late := k.MaxLateness - idle
	if held.RetryAfter = -idle; held.RetryAfter > 0 {
		return k.refuse(held)
	}
	v, err := verdict{}, error(nil)
	if of.Account == k.call.Account() {
		v, err = k.finish(ctx, k.call.Client(), other, of)
	}
	switch {
	case errors.Is(err, store.ErrConflict), err == nil && (v.happened || v.absent && late <= 0):
		return store.ErrConflict
	case err != nil || late > 0:
		held.cause, held.RetryAfter = err, recheck(idle, max(late, k.MaxLateness/2))
		return k.refuse(held)
	}
	return cmp.Or(k.unsaved(k.setAside(ctx, other, of, v.why)), store.ErrConflict)
}

// setAside leaves a mutation that can no longer be executed, and of which no read tells, to a
// person. Its lock is free.
func (s *settings) setAside(ctx context.Context, entry *store.Entry, d *entryData, why string) error {
	d.Why = cmp.Or(d.Why, why, "another mutation has taken its lock")
	d.Before = nil // which counts the records of others from now on
	d.wait(entry, store.NeedsReview)
	entry.State, entry.Lock, entry.Data = store.NeedsReview, "", d.bytes()
	return s.store.Save(ctx, *entry)
}
