package transport

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lendingapi/lending-go/internal/redact"
)

// sharing holds the connections with HTTP/2. Requests share such a connection: a response belongs
// to its stream, so no request can take the response to another.
type sharing struct {
	transport *http.Transport // speaks HTTP/2 on the connection in its context; nil without HTTP/2

	mu     sync.Mutex
	speaks bool          // the service spoke HTTP/2 on the newest connection
	conns  []*shared     // the oldest first
	dialed chan struct{} // see underWay

	off    atomic.Bool  // the program has no HTTP/2
	owners atomic.Int32 // requests waiting for a connection of their own, before all others

	ends  sync.Mutex    // of requests; apart from mu, because net/http calls wake within calls under mu
	ended chan struct{} // closed at the next end of a request; nil if nobody waits
}

// nextEnd returns a channel, closed at the next end of a request or of a connection.
func (s *sharing) nextEnd() <-chan struct{} {
	s.ends.Lock()
	defer s.ends.Unlock()
	if s.ended == nil {
		s.ended = make(chan struct{})
	}
	return s.ended
}

func (s *sharing) wake() {
	s.ends.Lock()
	defer s.ends.Unlock()
	if s.ended != nil {
		close(s.ended)
		s.ended = nil
	}
}

// SpeaksHTTP2 reports whether the newest connection to the service speaks HTTP/2.
func (f *Fresh) SpeaksHTTP2() bool {
	f.sharing.mu.Lock()
	defer f.sharing.mu.Unlock()
	return f.sharing.speaks
}

// take returns a connection for a request, nil if there is none.
func (s *sharing) take() *shared {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns = slices.DeleteFunc(s.conns, (*shared).isOver)
	if s.owners.Load() > 0 {
		return nil
	}
	for _, c := range s.conns {
		if c.isGood() && c.hold() {
			return c
		}
	}
	return nil
}

// turn returns a shared connection, or the caller's turn to open one: the caller calls done
// afterwards. If the service speaks HTTP/2, turn waits for a connection under way.
func (s *sharing) turn(ctx context.Context) (c *shared, done func(), err error) {
	if c := s.take(); c != nil {
		return c, nil, nil
	}
	if dialed := s.underWay(); dialed != nil {
		select {
		case <-dialed:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
		if c := s.take(); c != nil {
			return c, nil, nil
		}
	}
	return nil, s.dial(), nil
}

// underWay returns a channel, closed when a connection to share is open or has failed. It returns
// nil without such a connection.
func (s *sharing) underWay() chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.speaks {
		return nil
	}
	return s.dialed
}

// dial notes a connection under way, and returns a function for its end.
func (s *sharing) dial() (done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dialed != nil {
		return func() {}
	}
	s.dialed = make(chan struct{})
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		close(s.dialed)
		s.dialed = nil
	}
}

// opened notes the protocol of a new connection. A connection with HTTP/2 is shared from now on.
// opened returns nil for HTTP/1.
func (s *sharing) opened(c *conn) (*shared, error) {
	var one *shared
	if c.speaksHTTP2() {
		one = &shared{
			wire: &c.wire, conn: c.Conn, ended: s.wake, heard: c.since, waiting: 1, pen: make(chan struct{}, 1), over: make(chan struct{}),
		}
		c.wire.shared, c.handover = one, handover{context.Background(), c}
		made, err := s.transport.NewClientConn(&c.handover, "https", c.fresh.address)
		if err != nil {
			_ = c.Close()
			return nil, err
		}
		made.SetStateHook(func(*http.ClientConn) { s.wake() })
		one.http = made
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if one != nil {
		s.conns = append(s.conns, one)
	}
	if !c.waited { // else it was opened for HTTP/1
		s.speaks = one != nil
	}
	return one, nil
}

// closeIdle closes the connections without requests. The others are closed after their requests.
func (s *sharing) closeIdle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns = slices.DeleteFunc(s.conns, (*shared).closeIfIdle)
}

// shared is a connection with HTTP/2. Its requests are written in turn.
type shared struct {
	wire *wireConn
	conn net.Conn      // with TLS
	pen  chan struct{} // full while a request is being written
	over chan struct{} // closed when nothing is written any more

	http  *http.ClientConn
	ended func() // called when a request has ended

	mu      sync.Mutex
	heard   time.Time // when the service last sent something
	calls   int       // the number of requests so far
	waiting int       // the number of requests that have c, but not the pen yet
	active  int       // the number of requests after that, until their response is read
	writing *stream   // the request with the pen; may be nil
	refused error     // why nothing is written any more
}

// isOver reports whether c can have no further requests, and closes an idle connection then.
func (c *shared) isOver() bool {
	if c.http.Err() != nil {
		return true
	}
	return !(c.isYoung() && !c.isSpent()) && c.closeIfIdle()
}

// closeIfIdle closes c if no request has it.
func (c *shared) closeIfIdle() bool {
	c.mu.Lock()
	idle := c.waiting == 0 && c.active == 0
	c.mu.Unlock()
	if idle {
		_ = c.http.Close()
	}
	return idle
}

// hold has c wait for a request, if there is a stream left. It leaves a stream free, because the
// service may count a stream for longer than net/http. It reserves none at net/http, which stalls if
// more are reserved than the service allows later.
func (c *shared) hold() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	free := c.http.Available() - c.waiting
	ok := free > 1 || free == 1 && c.active+c.waiting == 0
	if ok {
		c.waiting++
	}
	return ok
}

// release ends a hold.
func (c *shared) release() {
	c.mu.Lock()
	c.waiting--
	c.mu.Unlock()
	c.ended()
}

// maxCalls is the largest number of requests on a connection. Proxies close a connection after a
// number of requests, some after 100, and refuse requests that are on their way then.
const maxCalls = 90

// isGood reports whether c can have another request: the service has sent something a short time
// ago, and has not closed an idle connection since, as far as the kernel knows. Input during
// requests is theirs.
func (c *shared) isGood() bool {
	return c.isYoung() && !c.isSpent() && (c.isActive() || !c.hasUsed() || !c.wire.hasInput())
}

// isUsable reports whether c can have another request now.
func (c *shared) isUsable() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refused == nil && c.http.Available() > 0
}

func (c *shared) isYoung() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refused == nil && isRecent(c.heard)
}

func (c *shared) hasUsed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls > 0
}

func (c *shared) isSpent() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls >= maxCalls
}

func (c *shared) isActive() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.active > 0
}

// hears notes that the service has sent something.
func (c *shared) hears() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard = time.Now()
}

var (
	errClosing error = redact.Text("the service closed the connection before the request")
	errGivenUp error = redact.Text("the connection was given up, because another request had to end")
)

// mayWrite reports whether a write may begin. After the first refusal nothing is written any more.
func (c *shared) mayWrite() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch one := c.writing; {
	case c.refused != nil || one == nil:
	case !one.deadline.allows():
		c.refuse(errGivenUp)
		one.stopped = ErrLate
	case one.looks && c.active == 1 && c.wire.hasInput():
		c.refuse(errClosing)
	default:
		one.looks = false
		one.writes++
	}
	return c.refused == nil
}

// refuse ends the request that is not written yet, and those that wait for it.
func (c *shared) refuse(err error) {
	if c.refused != nil {
		return
	}
	c.refused = err
	close(c.over)
	if c.writing != nil {
		c.writing.stopped = err
		close(c.writing.stop)
	}
}

// wrote notes the result of a write. A write that failed without a byte does not count.
func (c *shared) wrote(n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		return
	}
	if n == 0 && c.writing != nil {
		c.writing.writes--
	}
	c.refuse(err)
}

// net/http exports no errors for what follows, only texts. With other texts the outcome would be
// unknown.

// isUnusable reports whether the connection had ended before net/http began the request.
func isUnusable(err error) bool {
	text := err.Error()
	return text == "http2: client conn not usable" || text == "http2: client conn could not be established"
}

var errLeftAlone error = redact.Text("the service closed the HTTP/2 stream or the connection without processing the request")

// isLeftAlone reports whether the service has promised not to process the request: RFC 9113,
// section 8.7.
func isLeftAlone(err error) bool {
	reset, ok := errors.AsType[streamError](err)
	return ok && reset.Code == refusedStream ||
		err.Error() == "http2: Transport received Server's graceful shutdown GOAWAY"
}

const refusedStream = 7

// streamError has the fields of net/http's error for a reset stream, which errors.As assigns to any
// struct with these fields.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (streamError) Error() string { return "the HTTP/2 stream was reset" }
