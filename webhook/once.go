package webhook

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/safely"
)

// An [EventFunc] returns one of these errors, or wraps it, to say more than success or failure.
var (
	// ErrDuplicate means that the event was handled before. It is a success.
	ErrDuplicate = errors.New("lending/webhook: the event was handled before")
	// ErrClaimed means that the event is being handled at this moment. It is a failure, because
	// that can still fail.
	ErrClaimed = errors.New("lending/webhook: the event is being handled")
	// ErrNotRecorded means that the event was handled and that the [Deduper] could not record
	// it. It is a success: after a failure the event would be sent and handled again.
	ErrNotRecorded = errors.New("lending/webhook: the event was handled, but that could not be recorded; check the deduper")
)

// accepted reports whether err of an EventFunc is a success.
func accepted(err error) bool {
	return err == nil || errors.Is(err, ErrDuplicate) || errors.Is(err, ErrNotRecorded)
}

// Deduper remembers the keys of events that were handled: see [Once]. A key is free, claimed or
// done. A claim ends by itself after Lease, so that no event is lost if the process ends while
// handling it. A done key is forgotten after Keep.
//
// [NewMemoryDeduper] serves one process. Several processes share a deduper of contrib/redis or
// contrib/postgres. To write a deduper of your own, run the tests of package
// lendingtest/storetest on it.
type Deduper interface {
	// Claim claims a free key. The error is [ErrDuplicate] if the key is done, and [ErrClaimed]
	// if it is claimed. If ctx has ended, Claim fails.
	Claim(ctx context.Context, key string) (Claim, error)
}

// Claim is a claimed key.
type Claim interface {
	// Done makes the key done, even if the claim has ended.
	Done(ctx context.Context) error
	// Release makes the key free, unless the key is done, or the claim has ended and another
	// process has claimed the key.
	Release(ctx context.Context) error
}

// DeduperOptions are the times of a [Deduper]. Zero fields mean the defaults.
type DeduperOptions struct {
	// Lease is how long a claim lasts. Choose it longer than the Timeout of [ReceiverOptions]:
	// an event whose handling outlives its claim can be handled twice.
	Lease time.Duration // 5 min
	// Keep is how long a done key is remembered.
	Keep time.Duration // 72 h
}

// WithDefaults returns the options with the defaults for zero fields, and all defaults for a nil
// pointer. Dedupers call it.
func (o *DeduperOptions) WithDefaults() DeduperOptions {
	var times DeduperOptions
	if o != nil {
		times = *o
	}
	setDefault(&times.Lease, 5*time.Minute)
	setDefault(&times.Keep, 72*time.Hour)
	return times
}

// Once returns an [EventFunc] that calls handle once for each delivery. For a delivery that
// repeats an earlier one byte for byte it returns [ErrDuplicate].
//
// The service itself sends an event again with another time in it. [OnceBy] recognises that.
func Once(d Deduper, handle EventFunc) EventFunc { return OnceBy(d, (*Event).Key, handle) }

// OnceBy is [Once] with a key of your choice: the event's name and an identifier in its data.
// The key recognises an event that the service sends again after a failure. If key returns "",
// handle is called each time. Use both together:
//
//	handle = webhook.Once(deduper, webhook.OnceBy(deduper, byWithdrawal, handle))
//
// If handle fails or panics, its key is free again. Make handle safe to repeat: if the process
// ends after handle has succeeded and before the deduper has recorded it, handle is called again
// when the service sends the event again and the claim has ended.
func OnceBy(d Deduper, key func(*Event) string, handle EventFunc) EventFunc {
	return func(ctx context.Context, event *Event) error {
		k := key(event)
		if k == "" {
			return handle(ctx, event)
		}
		claim, err := d.Claim(ctx, k)
		if err != nil {
			return err
		}
		done := false
		defer func() {
			if !done { // handle failed or panicked
				release(ctx, claim)
			}
		}()
		if err = handle(ctx, event); !accepted(err) {
			return err
		}
		done = true
		ctx, cancel := toRecord(ctx)
		defer cancel()
		if failed := safely.Call[lending.PanicError](func() error { return claim.Done(ctx) }); failed != nil {
			return fmt.Errorf("%w: %w", ErrNotRecorded, failed)
		}
		return err
	}
}

// release releases a claim. If that fails, the claim ends by itself.
func release(ctx context.Context, claim Claim) {
	ctx, cancel := toRecord(ctx)
	defer cancel()
	_ = safely.Call[lending.PanicError](func() error { return claim.Release(ctx) })
}

// toRecord returns a context for calls of a store that must be made although ctx has ended.
func toRecord(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
}
