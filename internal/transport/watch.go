package transport

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lendingapi/lending-go/internal/redact"
)

const (
	tick = 500 * time.Millisecond
	// maxStop is the longest stop of the process, for example in a stopped container, after which
	// an open connection is used.
	maxStop = 3 * time.Second
)

// ErrLate is the error of a write that came too late.
var ErrLate error = redact.Text("the process stood still, or the deadline was over, before the request was written")

// watched is a connection that ends if the process stood still: a request on its way would arrive
// later than anybody expects. A context cannot prevent that, because its timer sets a flag, and a
// process wakes from a stop before its timers fire.
type watched struct {
	net.Conn

	first *Deadline // of the request that opened the connection; may be nil

	mu     sync.Mutex
	timer  *time.Timer // calls tick
	ticked time.Time   // when the process ran
	closed bool
}

func watch(conn net.Conn, first *Deadline) *watched {
	w := &watched{Conn: conn, first: first, ticked: time.Now()}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(tick, w.tick)
	return w
}

func (w *watched) tick() {
	now := time.Now() // before stood: a stop after it shows at the next look
	if w.stood() {
		_ = w.Close()
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.ticked = now
		w.timer.Reset(tick)
	}
}

func (w *watched) stood() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return since(w.ticked) > maxStop
}

func (w *watched) Write(p []byte) (int, error) {
	if w.stood() || !w.first.allows(w) {
		_ = w.Close()
		return 0, ErrLate
	}
	return w.Conn.Write(p)
}

func (w *watched) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.timer.Stop()
	return w.Conn.Close()
}

// since asks the wall clock too: the monotonic clock stops while a machine sleeps.
func since(at time.Time) time.Duration {
	now := time.Now()
	return max(now.Sub(at), now.Round(0).Sub(at.Round(0)))
}

// Deadline is the deadline of a request by the clock.
type Deadline struct {
	at             time.Time
	conn           atomic.Pointer[watched] // that the request has got
	ended, refused atomic.Bool
}

type deadlineContext struct{}

// WithDeadline returns a context for a single request. If the request opens a connection of
// [Fresh], the connection writes nothing after the deadline of ctx, until the first byte of the
// request. The Deadline is nil if ctx has none.
func WithDeadline(ctx context.Context) (context.Context, *Deadline) {
	at, ok := ctx.Deadline()
	if !ok {
		return ctx, nil
	}
	d := &Deadline{at: at}
	return context.WithValue(ctx, deadlineContext{}, d), d
}

func deadlineIn(ctx context.Context) *Deadline {
	d, _ := ctx.Value(deadlineContext{}).(*Deadline)
	return d
}

// IsOver reports whether the deadline is over, even if the timer of the context is late.
func (d *Deadline) IsOver() bool { return d != nil && since(d.at) > 0 }

// Got notes the connection of the request: its next bytes are the request's.
func (d *Deadline) Got(conn net.Conn) {
	if w, ok := dialed(conn).(*watched); ok && d != nil {
		d.conn.Store(w)
	}
}

// dialed returns the connection below TLS.
func dialed(conn net.Conn) net.Conn {
	for secure, ok := conn.(*tls.Conn); ok; secure, ok = conn.(*tls.Conn) {
		conn = secure.NetConn()
	}
	return conn
}

// End notes the end of the request: its connection is for others then.
func (d *Deadline) End() {
	if d != nil {
		d.ended.Store(true)
	}
}

// NeverLeft reports whether the deadline kept every byte of the request back.
func (d *Deadline) NeverLeft() bool { return d != nil && d.refused.Load() }

// allows reports whether w, which the request has opened, may write.
func (d *Deadline) allows(w *watched) bool {
	if d == nil || d.ended.Load() {
		return true
	}
	isOver := d.IsOver()
	switch isOwn := d.conn.Load() == w; {
	case isOwn && isOver:
		d.refused.Store(true)
	case isOwn:
		d.End() // this is the first byte
	}
	return !isOver
}
