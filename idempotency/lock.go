package idempotency

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/lendingapi/lending-go/idempotency/store"
)

// saveWithLock saves the entry with the lock of the mutation. It takes the lock from another mutation
// that no longer needs the lock.
func (k *keyedCall) saveWithLock(ctx context.Context, now line) error {
	for range maxTurns {
		err := k.save(ctx, k.lock, now)
		held, isHeld := errors.AsType[*store.LockedError](err)
		if !isHeld {
			return err
		}
		if err := k.release(ctx, held.Key); err != nil {
			return err
		}
	}
	return k.refuse(Error{kind: ErrInProgress, RetryAfter: time.Second})
}

// release takes the lock from the mutation of another key if the other mutation no longer needs
// the lock. It ends the doubt about the other mutation if a read can. The error is nil if the lock may be free.
func (k *keyedCall) release(ctx context.Context, key string) error {
	other, err := k.store.Load(ctx, key)
	if err != nil {
		return k.unsaved(err)
	}
	if other == nil || other.Lock == "" {
		return nil
	}
	held := Error{kind: ErrLocked, Held: strings.TrimPrefix(key, k.stored(""))}
	of, err := k.open(ctx, other)
	if held.cause = err; err != nil {
		return k.refuse(held)
	}
	then, wait, why := of.release(other)
	switch then {
	case thenEndDoubt:
		wait, err = k.endOther(ctx, k.call.Client(), other, &of, true)
	case thenTake:
		if of.isOfCopy && other.State == store.Free {
			of.Restore = "" // it can have been sent since the copy: the next call with its key looks
		}
		of.note(other, line{State: other.State})
		err = k.store.Save(ctx, of.next(other, other.State, ""))
	default:
		held.Why = why
	}
	if wait > 0 {
		held.cause, held.RetryAfter, held.inFlight = err, wait, of.idle(other) < 0
		return k.refuse(held)
	}
	return k.unsaved(err)
}
