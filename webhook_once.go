package lending

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lendingapi/lending-go/internal/safely"
)

// What an [EventFunc] can say beside success and failure.
var (
	// ErrDuplicate means that the event has been acted on before. It is a success.
	ErrDuplicate = errors.New("lending: event: it has been acted on before")
	// ErrClaimed means that the event is being acted on at this moment. It is not a
	// success: that may still fail.
	ErrClaimed = errors.New("lending: event: it is being acted on")
	// ErrNotRecorded means that the event was acted on, and that the [Deduper] could not
	// record it. It is a success: to have it sent again would be to act twice.
	ErrNotRecorded = errors.New("lending: event: it was acted on, which could not be recorded")
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

// WithDefaults returns the options with the usual times in the place of zeros.
func (o DeduperOptions) WithDefaults() DeduperOptions {
	setDefault(&o.Lease, 5*time.Minute)
	setDefault(&o.Keep, 72*time.Hour)
	return o
}

// Once returns an [EventFunc] that calls handle for each delivery once, and returns
// [ErrDuplicate] for those that are equal to an earlier one byte for byte. See [OnceBy].
func Once(d Deduper, handle EventFunc) EventFunc { return OnceBy(d, (*Event).Key, handle) }

// OnceBy is [Once] with a key of the caller's choice: an identifier in the event's
// data, together with its name. It recognises what the service sends again after a
// failure. Events for which key returns "" are handled each time. The two combine:
//
//	handle = lending.Once(deduper, lending.OnceBy(deduper, byWithdrawal, handle))
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
				_ = safely.Call[PanicError](func() error { return claim.Release(ctx) }) // if that fails, the claim ends by itself
			}
		}()
		if err = handle(ctx, event); !accepted(err) {
			return err
		}
		done = true
		ctx, cancel := afterwards(ctx)
		defer cancel()
		if failed := safely.Call[PanicError](func() error { return claim.Done(ctx) }); failed != nil {
			return fmt.Errorf("%w: %w", ErrNotRecorded, failed)
		}
		return err
	}
}

// afterwards returns a context for what must be recorded although the sender has gone.
func afterwards(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
}

// NewMemoryDeduper returns a [Deduper] for one process. It forgets everything when
// the process ends, and takes about 200 bytes for each key until Keep has passed.
func NewMemoryDeduper(opts DeduperOptions) Deduper {
	d := &dedupeState{options: opts.WithDefaults(), keys: map[string]*claimState{}}
	return memoryDeduper{func() *dedupeState { return d }}
}

// memoryDeduper and memoryClaim hold their state behind a function, where nothing that
// prints or compares looks.
type (
	memoryDeduper struct{ state func() *dedupeState }
	memoryClaim   struct{ state func() *claimState }
)

type dedupeState struct {
	options DeduperOptions

	mu   sync.Mutex
	keys map[string]*claimState
	done []*claimState // in the order in which they are forgotten
}

type claimState struct {
	deduper *dedupeState
	key     string
	done    bool
	until   time.Time // when the claim ends, or when what is done is forgotten
}

func (m memoryDeduper) Claim(ctx context.Context, key string) (Claim, error) {
	d := m.state()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	for len(d.done) > 0 && !now.Before(d.done[0].until) {
		if forgotten := d.done[0]; d.keys[forgotten.key] == forgotten {
			delete(d.keys, forgotten.key)
		}
		d.done[0] = nil
		d.done = d.done[1:]
	}
	if c := d.keys[key]; c != nil && c.done {
		return nil, ErrDuplicate
	} else if c != nil && now.Before(c.until) {
		return nil, ErrClaimed
	}
	c := &claimState{deduper: d, key: key, until: now.Add(d.options.Lease)}
	d.keys[key] = c
	return memoryClaim{func() *claimState { return c }}, nil
}

func (m memoryClaim) Done(context.Context) error {
	c := m.state()
	c.deduper.mu.Lock()
	defer c.deduper.mu.Unlock()
	if !c.done {
		c.done, c.until = true, time.Now().Add(c.deduper.options.Keep)
		c.deduper.keys[c.key] = c
		c.deduper.done = append(c.deduper.done, c)
	}
	return nil
}

func (m memoryClaim) Release(context.Context) error {
	c := m.state()
	c.deduper.mu.Lock()
	defer c.deduper.mu.Unlock()
	if c.deduper.keys[c.key] == c && !c.done {
		delete(c.deduper.keys, c.key)
	}
	return nil
}
