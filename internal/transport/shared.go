package transport

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/lendingapi/lending-go/internal/neterr"
)

// shared are the connections of HTTP/2 to a service. net/http's own pool sends up to 100 requests on a new
// connection before the service has told how many it takes at once, resends requests, and hides why it could not.
// These connections wait, and never resend.
type shared struct {
	dialer *http.Transport
	speaks atomic.Int32  // the version of HTTP, or 0 before the first connection
	freed  chan struct{} // an element: a connection may have a place

	mu      sync.Mutex
	conns   []*conn
	dialing *dialing  // nil unless a connection is being dialed
	closed  int       // calls of closeIdle
	places  int       // of the last connection whose places are known: a new connection may have as many
	most    int32     // requests of a new connection
	learned time.Time // most, from a refusal
}

// dialing is a connection that requests wait for.
type dialing struct {
	done chan struct{} // closed when the others are set
	conn *conn
	err  error
}

// conn is a connection of HTTP/2, or the first of HTTP/1.1.
type conn struct {
	*http.ClientConn

	below   net.Conn
	isHTTP2 bool
	most    int32 // of requests
	sent    atomic.Int32
	assumed int  // places, before the service tells
	isTold  bool // the service has told
}

// A gateway ends a connection after a number of requests: nginx after 1,000, or as configured. The gateway refuses
// the requests on the way. So a connection carries maxRequests. If a gateway refuses a request earlier, the next
// connections carry nine tenths of that number for an hour, and at least minRequests: the gateway may have had
// another reason.
const (
	maxRequests = 900
	minRequests = 50
)

// After slowDial another dial begins beside the first: behind a load balancer a single instance may be dead. A dial
// ends after maxDial, also at a proxy that never answers.
const (
	slowDial = 2 * time.Second
	maxDial  = 30 * time.Second
)

func newShared(like *http.Transport, http2 bool) *shared {
	s := &shared{dialer: like.Clone(), freed: make(chan struct{}, 1)}
	s.dialer.MaxConnsPerHost = 0 // net/http counts the end of a ClientConn, but not its beginning, and panics (Go 1.26, 1.27)
	if !http2 {
		s.speaks.Store(1)
	}
	return s
}

// isFor reports whether a request to u may share a connection. net/http dials a host beyond ASCII by itself.
func (s *shared) isFor(u *url.URL) bool {
	isForeign := strings.ContainsFunc(u.Host, func(r rune) bool { return r > unicode.MaxASCII })
	return u.Scheme == "https" && !isForeign && s.speaks.Load() != 1
}

// reserve waits for a connection with a place, and returns the number of the request there. The connection is nil if
// the service speaks HTTP/1.1, and another request has the connection that told so.
func (s *shared) reserve(ctx context.Context, u *url.URL) (c *conn, n int32, err error) {
	for {
		if ctx.Err() != nil {
			s.signal() // for another
			return nil, 0, context.Cause(ctx)
		}
		c, n, d := s.next(u)
		if c != nil {
			s.signal() // there may be more
			return c, n, nil
		}
		select {
		case <-d.done:
			if d.err != nil {
				return nil, 0, d.err
			}
			n := s.take(d.conn)
			switch {
			case n > 0, d.conn.isHTTP2 && d.conn.sent.Load() == 0: // without a place, the request learns why
				return d.conn, n, nil
			case !d.conn.isHTTP2:
				return nil, 0, nil
			}
		case <-s.freed:
		case <-ctx.Done():
		}
	}
}

// next returns a connection with a place and the number of the request there, or the connection that is being dialed.
func (s *shared) next(u *url.URL) (*conn, int32, *dialing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns = slices.DeleteFunc(s.conns, func(c *conn) bool { return c.Err() != nil || c.isUsedUp() })
	for _, c := range s.conns {
		if n := s.takeLocked(c); n > 0 {
			return c, n, nil
		}
	}
	if s.dialing == nil {
		s.dialing = &dialing{done: make(chan struct{})}
		go s.dial(s.dialing, net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "443")))
	}
	return nil, 0, s.dialing
}

// dial has no context of a caller, because several wait for the connection. The first of several dials ends d.
func (s *shared) dial(d *dialing, address string) {
	another := time.AfterFunc(slowDial, func() {
		select {
		case <-d.done:
		default:
			s.dial(d, address)
		}
	})
	defer another.Stop()
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), maxDial)
	defer cancel()
	c := &conn{}
	ctx = context.WithValue(ctx, belowContext{}, &c.below)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{TLSHandshakeDone: func(state tls.ConnectionState, _ error) {
		c.isHTTP2 = state.NegotiatedProtocol == "h2" // through a proxy, the last handshake is the service's
	}})
	var err error
	c.ClientConn, err = s.dialer.NewClientConn(ctx, "https", address)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.conns = append(s.conns, c)
		s.beginLocked(c)
		c.SetStateHook(func(*http.ClientConn) { s.changed(c) })
		if !c.isHTTP2 || s.closed != closed { // if all requests ended during the dial, none takes c
			time.AfterFunc(time.Second, s.closeIdle)
		}
	}
	if s.dialing != d {
		s.signal()
		return
	}
	d.conn, d.err, s.dialing = c, err, nil
	close(d.done)
}

// beginLocked notes the protocol of c, and how many requests c carries.
func (s *shared) beginLocked(c *conn) {
	c.most = s.mostLocked()
	if !c.isHTTP2 {
		s.speaks.Store(1) // net/http ends c after its request
		return
	}
	s.speaks.Store(2)
	c.below, c.assumed = sharedConn{c.below}, c.Available()
}

func (s *shared) mostLocked() int32 {
	if time.Since(s.learned) > time.Hour {
		s.most = maxRequests
	}
	return s.most
}

// learnLocked notes that the gateway has refused the request n of a connection.
func (s *shared) learnLocked(n int32) {
	s.most, s.learned = min(s.mostLocked(), max(n*9/10, minRequests)), time.Now()
}

// belowContext is the key of a place for the connection below TLS.
type belowContext struct{}

// sharedConn marks the connection of several requests.
type sharedConn struct{ net.Conn }

func (s *shared) take(c *conn) int32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.takeLocked(c)
}

// takeLocked reserves a place of c, and returns the number of the request, or 0 if there is no place.
func (s *shared) takeLocked(c *conn) int32 {
	if c.Available()+c.InFlight() > c.assumed {
		s.toldLocked(c)
	}
	if !c.isTold && c.InFlight() >= max(1, s.places) || c.Reserve() != nil {
		return 0
	}
	return c.sent.Add(1)
}

// toldLocked notes that the service has told of its places.
func (s *shared) toldLocked(c *conn) {
	if !c.isTold && c.isHTTP2 {
		c.isTold, s.places = true, c.Available()+c.InFlight()
	}
}

// changed follows a change of c: another place, or its end.
func (s *shared) changed(c *conn) {
	if c.isUsedUp() && c.InFlight() == 0 {
		_ = c.Close()
	}
	s.signal()
}

// signal wakes a request that waits for a place.
func (s *shared) signal() {
	select {
	case s.freed <- struct{}{}:
	default:
	}
}

func (c *conn) isUsedUp() bool { return c.sent.Load() >= c.most }

// roundTrip sends r over c, as the request n.
func (s *shared) roundTrip(c *conn, n int32, r *http.Request) (*http.Response, error) {
	if trace := httptrace.ContextClientTrace(r.Context()); trace != nil && trace.GotConn != nil {
		c.got(trace, n)
	}
	resp, err := c.RoundTrip(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		s.toldLocked(c) // before it answered
		s.signal()
	case neterr.IsUnprocessed(err):
		s.learnLocked(n)
	case c.InFlight() == 0 && c.Available() == 0: // after a GOAWAY, or without places
		_ = c.Close()
	}
	return resp, err
}

// got calls the hook, which asks a store of the caller for permission. A panic there frees the place.
func (c *conn) got(trace *httptrace.ClientTrace, n int32) {
	hasReturned := false
	defer func() {
		if !hasReturned {
			c.Release()
		}
	}()
	trace.GotConn(httptrace.GotConnInfo{Conn: c.below, Reused: n != 1})
	hasReturned = true
}

// closeIdle closes the connections without requests, and a connection that is being dialed if no request takes it.
func (s *shared) closeIdle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed++
	for _, c := range s.conns {
		if c.InFlight() == 0 {
			_ = c.Close()
		}
	}
}
