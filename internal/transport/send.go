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

// ErrLate is the error of a write that came too late.
var ErrLate error = redact.Text("the call was over before its request was written")

// ErrHeld is the error of a mutation whose permission ended before a byte of the mutation had left.
var ErrHeld error = redact.Text("the permission of the log ended in the wait for a place on the connection; " +
	"call again, with fewer calls at once")

// Permission returns the time before which a mutation must begin to leave, or the reason not to send it.
type Permission func() (before time.Time, err error)

type permissionContext struct{}

// WithPermission returns a context for a mutation that needs permission right before it is sent.
func WithPermission(ctx context.Context, permission Permission) context.Context {
	return context.WithValue(ctx, permissionContext{}, permission)
}

// Permit asks for the permission of [WithPermission]. Without one, a mutation may be sent at any time.
func Permit(ctx context.Context) (before time.Time, err error) {
	if permission, ok := ctx.Value(permissionContext{}).(Permission); ok {
		return permission()
	}
	return time.Time{}, nil
}

// Send is the context of a single request through [Fresh]. Until the request is written, Send ends
// with its deadline by the clock, and a connection refuses to write the request after the deadline
// or after End. A timer alone cannot prevent a late write, because a process wakes from a stop
// before its timers fire. Send ends no request that is written: a response is on its way.
type Send struct {
	context.Context //nolint:containedctx // Send is a context

	mu       sync.Mutex
	before   time.Time // the first byte must leave before; zero for no limit
	refused  error     // by the permission
	conn     *guarded  // of the request
	isShared bool      // conn has other requests
	left     bool      // a byte of the request may have left
	written  bool
	late     bool // the context has ended by the clock, and stays so
	ended    bool
}

// Start makes s the context of a request, in place of ctx, and returns s. The caller has to tell Send of
// the hooks of package httptrace, and of the end of the request.
func (s *Send) Start(ctx context.Context) *Send {
	s.Context = ctx
	return s
}

// Got notes the connection of the request, and asks for permission: the request waits for nothing
// but a stream from now on. Over HTTP/1.1 the next bytes of the connection are of the request.
func (s *Send) Got(conn net.Conn) {
	if !s.Left() {
		before, err := Permit(s.Context) // may take a while: net/http holds no lock in the hook
		s.mu.Lock()
		s.before, s.refused = before, err
		s.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var ok bool
	if s.conn, ok = dialed(conn).(*guarded); !ok {
		s.left = true // not known
		return
	}
	if s.isShared = IsShared(conn); !s.isShared {
		s.conn.writes.Store(s)
	}
}

// Begin notes that the connection writes the head of the request next. Over HTTP/2 the hook of the
// first field comes before the head is written.
func (s *Send) Begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		s.conn.writes.Store(s)
	}
}

// Wrote notes that the whole request is written.
func (s *Send) Wrote() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written = true
}

// IsShared reports whether conn speaks HTTP/2.
func IsShared(conn net.Conn) bool {
	if secure, ok := conn.(*tls.Conn); ok {
		return secure.ConnectionState().NegotiatedProtocol == "h2"
	}
	_, ok := conn.(sharedConn)
	return ok
}

// allows reports whether the connection may write.
func (s *Send) allows() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isShared && s.left {
		return true // the write can be of another request
	}
	allowed := !s.ended && !s.late && !s.isOver() && (s.left || !s.isHeld())
	s.left = s.left || allowed
	return allowed
}

func (s *Send) isOver() bool {
	at, ok := s.Deadline()
	return ok && isPast(at)
}

// isHeld reports whether the permission does not allow the first byte now.
func (s *Send) isHeld() bool {
	return s.refused != nil || !s.before.IsZero() && isPast(s.before)
}

// isPast asks the wall clock too: the monotonic clock stops while a machine sleeps.
func isPast(at time.Time) bool {
	now := time.Now()
	return now.After(at) || now.Round(0).After(at.Round(0))
}

var over = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Done implements [context.Context]. net/http asks it before it writes a head or data of HTTP/2.
func (s *Send) Done() <-chan struct{} {
	if s.isLate() {
		return over
	}
	return s.Context.Done()
}

// Err implements [context.Context].
func (s *Send) Err() error {
	if err := s.Context.Err(); err != nil || !s.isLate() {
		return err
	}
	return context.DeadlineExceeded
}

// isLate remembers its yes: package context panics, and net/http returns neither a response nor an
// error, if Err is nil after Done.
func (s *Send) isLate() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = s.late || !s.written && (s.isOver() || !s.left && s.isHeld())
	return s.late
}

// End notes the end of the request: no byte of it leaves from now on, unless one has left.
func (s *Send) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
}

// Refused returns the reason of the permission not to send the request, and ErrHeld for a permission that ended too early.
func (s *Send) Refused() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refused == nil && !s.left && s.isHeld() {
		return ErrHeld
	}
	return s.refused
}

// Left reports whether a byte of the request may have left.
func (s *Send) Left() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.left
}

// guarded is a connection of [Fresh].
type guarded struct {
	net.Conn

	writes atomic.Pointer[Send] // the request of the next bytes, or an earlier one
}

func (g *guarded) Write(p []byte) (int, error) {
	if s := g.writes.Load(); s != nil && !s.allows() {
		_ = g.Close()
		return 0, ErrLate
	}
	return g.Conn.Write(p)
}

// dialed returns the connection below TLS.
func dialed(conn net.Conn) net.Conn {
	for secure, ok := conn.(*tls.Conn); ok; secure, ok = conn.(*tls.Conn) {
		conn = secure.NetConn()
	}
	if marked, ok := conn.(sharedConn); ok {
		return marked.Conn
	}
	return conn
}
