package webhook

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/safely"
)

// What an [EventFunc] can say beside success and failure.
var (
	// ErrDuplicate means that the event has been acted on before. It is a success.
	ErrDuplicate = errors.New("lending/webhook: the event was handled before")
	// ErrClaimed means that the event is being acted on at this moment. It is not a
	// success: that may still fail.
	ErrClaimed = errors.New("lending/webhook: the event is being handled")
	// ErrNotRecorded means that the event was acted on, and that the [Deduper] could not
	// record it. It is a success: to have it sent again would be to act twice.
	ErrNotRecorded = errors.New("lending/webhook: the event was handled, but that could not be recorded")
)

// accepted reports whether err of an EventFunc means that the event is dealt with.
func accepted(err error) bool {
	return err == nil || errors.Is(err, ErrDuplicate) || errors.Is(err, ErrNotRecorded)
}

// Deduper remembers which keys have been acted on. A key is free, claimed or done. A
// claim ends by itself after some time, so that the end of a process between claim
// and action does not lose an event; what is done is forgotten after a longer time.
//
// [NewMemoryDeduper] serves one process; a fleet shares that of contrib/redis or
// contrib/postgres. Package lendingtest/storetest holds one of your own to this.
type Deduper interface {
	// Claim takes a free key. It returns [ErrDuplicate] for one that is done, and
	// [ErrClaimed] for one that is claimed; it fails if ctx has ended.
	Claim(ctx context.Context, key string) (Claim, error)
}

// Claim is a key that is being acted on.
type Claim interface {
	// Done makes the key done, also if the claim has ended in the meantime.
	Done(ctx context.Context) error
	// Release makes the key free, unless it is done, or somebody else has claimed it in
	// the meantime.
	Release(ctx context.Context) error
}

// DeduperOptions are the times of a [Deduper].
type DeduperOptions struct {
	// Lease is how long a claim lasts. It must be longer than the action can take, as
	// [ReceiverOptions] bounds it: an action that outlives its claim can be done twice.
	Lease time.Duration // 5 min
	// Keep is how long a done key is remembered.
	Keep time.Duration // 72 h
}

// WithDefaults returns the options with the default times in the place of zeros. Stores call it.
func (o *DeduperOptions) WithDefaults() DeduperOptions {
	var times DeduperOptions
	if o != nil {
		times = *o
	}
	setDefault(&times.Lease, 5*time.Minute)
	setDefault(&times.Keep, 72*time.Hour)
	return times
}

// Once returns an [EventFunc] that calls handle for each delivery once, and returns
// [ErrDuplicate] for those that are equal to an earlier one byte for byte. See [OnceBy].
func Once(d Deduper, handle EventFunc) EventFunc { return OnceBy(d, (*Event).Key, handle) }

// OnceBy is [Once] with a key of the caller's choice: an identifier in the event's
// data, together with its name. It recognises what the service sends again after a
// failure. Events for which key returns "" are handled each time. The two combine:
//
//	handle = webhook.Once(deduper, webhook.OnceBy(deduper, byWithdrawal, handle))
//
// A failure or a panic of handle frees the key. One window remains, as it must
// without a transaction that spans both: if the process ends after handle has acted
// and before that is recorded, the event is acted on again when it is sent again and
// the claim has ended.
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
		var done bool
		defer func() {
			if !done { // failed or panicked
				ctx, cancel := afterwards(ctx)
				defer cancel()
				_ = safely.Call[lending.PanicError](func() error { return claim.Release(ctx) }) // if that fails, the claim ends by itself
			}
		}()
		if err = handle(ctx, event); !accepted(err) {
			return err
		}
		done = true
		ctx, cancel := afterwards(ctx)
		defer cancel()
		if failed := safely.Call[lending.PanicError](func() error { return claim.Done(ctx) }); failed != nil {
			return fmt.Errorf("%w: %w", ErrNotRecorded, failed)
		}
		return err
	}
}

// afterwards returns a context for what must be recorded although the sender has gone.
func afterwards(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
}
