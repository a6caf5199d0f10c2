package idempotency

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/lendingapi/lending-go/idempotency/store"
)

// lockFor returns the hashed name of the lock of the row for the record of a request, or "" for no lock.
func (s *settings) lockFor(row route, of ids) string {
	for _, param := range [...]string{"loanId", "applicationId", "partnerId", "customerId"} {
		if row.lock != "" && of[param] != "" {
			return hashed(s.stored(row.lock + " " + param + " " + of[param]))
		}
	}
	return ""
}

// hashed returns a hash of text, for comparisons only.
func hashed(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// adds reports whether the next mutation of the lock needs the new records of this mutation.
func (k *keyedCall) adds() bool { return k.row.adds && k.lock != "" }

// held returns the error of a save, after release if another mutation has the lock.
func (k *keyedCall) held(ctx context.Context, err error) error {
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
	if now, err := k.standing(ctx); err == nil {
		now.distrust(other, &of)
	}
	switch isReserved := other.State == store.Free && !of.isCorrectable() && other.Age < reserved; {
	case err != nil:
		return k.refuse(held)
	case isInDoubt(other.State) && (!of.Doubt.Happened || of.Send.Open || of.canRebuild()):
		// It needs its lock while the service can execute it, and until a read shows a response that was
		// lost: next to the records of another mutation, nobody could tell which is whose.
		wait, err := k.endOther(ctx, k.call.Client(), other, &of, false)
		if wait == 0 || errors.Is(err, store.ErrConflict) {
			return cmp.Or(k.unsaved(err), store.ErrConflict)
		}
		held.cause, held.RetryAfter = err, wait
		return k.refuse(held)
	case other.Age < of.Hold:
		held.RetryAfter = of.Hold - other.Age
		held.Why = "the service can still execute the first of two sends, or reads do not show the effect yet"
		return k.refuse(held)
	case isReserved:
		held.RetryAfter, held.Why = min(reserved-other.Age, time.Second), "the other mutation is about to be sent"
		return k.refuse(held)
	}
	of.note(other, line{State: other.State})
	return cmp.Or(k.unsaved(k.store.Save(ctx, of.next(other, other.State, ""))), store.ErrConflict)
}
