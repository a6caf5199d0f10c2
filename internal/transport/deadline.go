package transport

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/lendingapi/lending-go/internal/redact"
)

// ErrLate is the error of a write after the deadline.
var ErrLate error = redact.Text("the deadline was over before the request was written")

// Deadline ends the writing of a request by the clock. A context cannot: its timer sets a flag,
// and a process wakes from a stop before its timers fire.
type Deadline struct {
	at                  time.Time
	got, wrote, refused atomic.Bool
}

type deadlineContext struct{}

// WithDeadline returns a context for a single request. The request's connection in [Fresh]
// writes nothing after the deadline of ctx. The Deadline is nil if ctx has none.
func WithDeadline(ctx context.Context) (context.Context, *Deadline) {
	at, ok := ctx.Deadline()
	if !ok {
		return ctx, nil
	}
	d := &Deadline{at: at}
	return context.WithValue(ctx, deadlineContext{}, d), d
}

// IsOver asks the wall clock too: the monotonic clock stops while a machine sleeps.
func (d *Deadline) IsOver() bool {
	now := time.Now()
	return d != nil && (now.After(d.at) || now.Round(0).After(d.at.Round(0)))
}

// Got notes the request's connection: the next bytes are the request's.
func (d *Deadline) Got() {
	if d != nil {
		d.got.Store(true)
	}
}

// NeverLeft reports whether the deadline kept every byte of the request back.
func (d *Deadline) NeverLeft() bool { return d != nil && d.refused.Load() && !d.wrote.Load() }

// allows reports whether a write may begin. It notes writes of the request.
func (d *Deadline) allows() bool {
	if d == nil {
		return true
	}
	if d.refused.Load() || d.IsOver() {
		d.refused.Store(true)
		return false
	}
	if d.got.Load() {
		d.wrote.Store(true)
	}
	return true
}

func deadlineIn(ctx context.Context) *Deadline {
	d, _ := ctx.Value(deadlineContext{}).(*Deadline)
	return d
}
