package transport

import (
	"context"
	"errors"
	"net"
	"sync"
)

// waited is a connection that was open before its request. Between the choice of the connection
// and the first byte of the request, net/http starts goroutines, and the service may close the
// connection. So waited looks again just before the first byte. If the service has closed the
// connection or sent something, waited opens another in its place, and net/http notices nothing.
type waited struct {
	net.Conn

	conn  *conn
	ctx   context.Context //nolint:containedctx // of the request
	first sync.Once       // the first Write or Close
	begun chan struct{}   // closed by first; Read waits for it
	err   error           // of the other connection
}

func newWaited(ctx context.Context, c *conn) *waited {
	return &waited{Conn: c.Conn, conn: c, ctx: ctx, begun: make(chan struct{})}
}

func (w *waited) Write(p []byte) (int, error) {
	w.first.Do(w.choose)
	if w.err != nil {
		return 0, w.err
	}
	return w.Conn.Write(p)
}

// choose keeps the connection or opens another. An error is that of Write and Read, because
// net/http returns the one that comes first.
func (w *waited) choose() {
	defer close(w.begun)
	if !w.conn.wire.hasInput() {
		return
	}
	_ = w.Conn.Close()
	c, err := w.conn.fresh.openNew(w.ctx, w.conn.fresh.tls1, nil)
	if err != nil {
		w.err = neverLeftError{err}
		return
	}
	c.wire.deadline = deadlineIn(w.ctx)
	w.Conn = c.Conn
}

func (w *waited) Read(p []byte) (int, error) {
	<-w.begun
	if w.err != nil {
		return 0, w.err
	}
	return w.Conn.Read(p)
}

// Close waits for a dial of the first Write, which ends with the context of the request.
func (w *waited) Close() error {
	w.first.Do(func() { close(w.begun) })
	return w.Conn.Close()
}

// neverLeftError is the error of a request of which no byte was written.
type neverLeftError struct{ error }

func (e neverLeftError) Unwrap() error { return e.error }

// NeverLeft reports whether err proves that no byte of the request was written, or that the service
// did not process the request.
func NeverLeft(err error) bool {
	_, ok := errors.AsType[neverLeftError](err)
	return ok || errors.Is(err, errLeftAlone)
}
