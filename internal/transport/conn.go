package transport

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// spareLife is the longest silence of a connection before its use. Servers keep a silent connection
// for longer.
const spareLife = 2 * time.Second

// conn is a connection on which no request was sent.
type conn struct {
	net.Conn // with TLS if the service has TLS

	fresh  *Fresh
	wire   wireConn
	since  time.Time
	waited bool        // was open before its request
	taken  atomic.Bool // by net/http

	handover handover
}

func (c *conn) isGood() bool { return c.isYoung() && c.isQuiet() }

func (c *conn) isYoung() bool { return isRecent(c.since) }

// isRecent asks the wall clock too: the monotonic clock stops while a machine sleeps.
func isRecent(at time.Time) bool {
	now := time.Now()
	return now.Sub(at) < spareLife && now.Round(0).Sub(at.Round(0)).Abs() < spareLife
}

func (c *conn) speaksHTTP2() bool {
	secure, ok := c.Conn.(*tls.Conn)
	return ok && secure.ConnectionState().NegotiatedProtocol == "h2"
}

// isQuiet reports whether the service has neither closed the connection nor sent anything but
// session tickets, as far as the kernel knows.
func (c *conn) isQuiet() bool {
	c.wire.looks = true
	_, err := c.Read(c.wire.seen[:]) // TLS takes the tickets
	c.wire.looks = false
	return errors.Is(err, os.ErrDeadlineExceeded)
}

func (c *conn) closeUnlessTaken() {
	if c.taken.CompareAndSwap(false, true) {
		_ = c.Close()
	}
}

// wireConn is the connection below TLS.
type wireConn struct {
	net.Conn

	deadline *Deadline     // of the request that has the connection; may be nil
	shared   *shared       // instead, if the connection speaks HTTP/2
	counted  chan struct{} // see Fresh; nil for a connection that net/http counts
	closed   atomic.Bool

	looks bool    // Read does not wait for input
	seen  [1]byte // the input that Read has found

	looking sync.Mutex
	found   [1]byte // the input of the last look
	peek    error   // of the last look
}

// Read returns [os.ErrDeadlineExceeded] instead of waiting while c looks: TLS can go on after
// this error.
func (c *wireConn) Read(p []byte) (int, error) {
	if c.looks && !c.hasInput() {
		return 0, os.ErrDeadlineExceeded
	}
	n, err := c.Conn.Read(p)
	if c.shared != nil && n > 0 {
		c.shared.hears()
	}
	return n, err
}

func (c *wireConn) Write(p []byte) (int, error) {
	if c.shared != nil {
		return c.writeShared(p)
	}
	if !c.deadline.allows() {
		return 0, ErrLate
	}
	return c.Conn.Write(p)
}

// writeShared returns no error: net/http would close the connection, and other requests wait for
// their responses. Unwritten requests end by themselves.
func (c *wireConn) writeShared(p []byte) (int, error) {
	if c.shared.mayWrite() {
		c.shared.wrote(c.Conn.Write(p))
	}
	return len(p), nil
}

func (c *wireConn) Close() error {
	err := c.Conn.Close()
	if c.counted != nil && c.closed.CompareAndSwap(false, true) {
		<-c.counted
	}
	return err
}
