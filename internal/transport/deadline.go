package transport

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"github.com/lendingapi/lending-go/internal/redact"
)

// ErrLate is the error of a write that comes after the deadline.
var ErrLate error = redact.Text("the deadline was over before the request was written")

// Deadline ends the writing of one request by the clock. The end of a context does not: it is a
// flag that a timer sets, and a process that was stopped runs on before its timers do.
type Deadline struct {
	at                  time.Time
	got, wrote, refused atomic.Bool
}

type deadlineContext struct{}

// WithDeadline returns a context for one request, whose connection of [OnceEach] writes nothing
// after the deadline of ctx. The Deadline is nil if ctx has none.
func WithDeadline(ctx context.Context) (context.Context, *Deadline) {
	at, ok := ctx.Deadline()
	if !ok {
		return ctx, nil
	}
	d := &Deadline{at: at}
	return context.WithValue(ctx, deadlineContext{}, d), d
}

// IsOver asks the wall clock too: the monotonic clock stands still while a machine sleeps.
func (d *Deadline) IsOver() bool {
	now := time.Now()
	return d != nil && (now.After(d.at) || now.Round(0).After(d.at.Round(0)))
}

// Got says that the request has its connection: the next bytes are its own.
func (d *Deadline) Got() {
	if d != nil {
		d.got.Store(true)
	}
}

// NeverLeft reports whether the deadline has kept every byte of the request back.
func (d *Deadline) NeverLeft() bool { return d != nil && d.refused.Load() && !d.wrote.Load() }

// timelyConn is the connection of one request with a deadline.
type timelyConn struct {
	net.Conn

	deadline *Deadline
}

func (c *timelyConn) Write(p []byte) (int, error) {
	if c.deadline.refused.Load() || c.deadline.IsOver() {
		c.deadline.refused.Store(true)
		return 0, ErrLate
	}
	if c.deadline.got.Load() {
		c.deadline.wrote.Store(true)
	}
	return c.Conn.Write(p)
}
