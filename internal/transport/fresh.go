package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/lendingapi/lending-go/internal/redact"
)

// Fresh is a transport with a connection for each request, on which nothing was sent before. A
// late or second response of the service then cannot answer the next mutation, or the next
// check, whose "not found" would resend a mutation. Looking for bytes on a kept connection
// before its next use is not enough: bytes may still be on their way. A mutation also never
// meets a connection that the service closes after an earlier response.
//
// If the service speaks HTTP/2, requests share a connection instead: see sharing.
//
// The connection may exist before the request: see [Fresh.Prepare] and spares. If a proxy leads
// to the service, net/http opens the connection for each request, with HTTP/1.1.
//
// The connection of a request with a context of [WithDeadline] writes nothing after the deadline.
type Fresh struct {
	standard *http.Transport // opens the connection of each request itself
	given    *http.Transport // sends a request through the connection in its context
	base     http.Request    // a request to the service, for the choice of a proxy
	address  string          // host and port of the service; "" if only standard can connect
	tls      *tls.Config     // offers HTTP/2, unless it is switched off; nil for http
	tls1     *tls.Config     // for HTTP/1.1; nil for http
	dial     func(ctx context.Context, network, address string) (net.Conn, error)

	conns   chan struct{} // an element for each open connection
	held    chan struct{} // an element for each connection of a [Prepared]
	spares  spares
	sharing sharing
}

// Options are the ways of a [Fresh] to save round trips.
type Options struct {
	Spares bool // opens connections for later requests
	HTTP2  bool // shares connections, if the service offers HTTP/2
}

// NewFresh returns a transport for the service at base, with the limits and the TLS of another
// transport.
func NewFresh(like *http.Transport, base *url.URL, with Options) *Fresh {
	f := &Fresh{
		standard: like.Clone(), base: http.Request{URL: base}, address: addressOf(base),
		conns: make(chan struct{}, like.MaxConnsPerHost), held: make(chan struct{}, like.MaxConnsPerHost/2),
	}
	f.spares.init(!with.Spares || !canLook)
	f.standard.DisableKeepAlives = true
	f.dial = like.DialContext
	f.standard.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := f.dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &wireConn{Conn: conn, deadline: deadlineIn(ctx)}, nil
	}
	f.given = f.standard.Clone()
	f.given.Proxy, f.given.MaxConnsPerHost = nil, 0
	f.given.DialContext, f.given.DialTLSContext = handedOver, handedOver
	if base.Scheme == "https" {
		f.tls1 = like.TLSClientConfig.Clone()
		f.tls1.ServerName = base.Hostname()
		f.tls = f.tls1
	}
	if base.Scheme == "https" && with.HTTP2 && canLook {
		f.share()
	}
	return f
}

// share offers HTTP/2 to the service.
func (f *Fresh) share() {
	f.tls = f.tls1.Clone()
	f.tls.NextProtos = []string{"h2", "http/1.1"}
	t := f.given.Clone()
	t.DisableKeepAlives, t.IdleConnTimeout = false, spareLife
	t.Protocols = new(http.Protocols)
	t.HTTP2 = &http.HTTP2Config{
		WriteByteTimeout:          10 * time.Second,
		MaxReceiveBufferPerStream: 64 << 20, // a response needs no room to be made for it
	}
	t.Protocols.SetHTTP2(true)
	f.sharing.transport = t
}

// addressOf returns host and port of the service, "" for a host that net/http has to translate.
func addressOf(base *url.URL) string {
	for _, r := range base.Host {
		if r > 0x7f {
			return ""
		}
	}
	port := base.Port()
	switch {
	case port != "":
	case base.Scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	return net.JoinHostPort(base.Hostname(), port)
}

// isDirect reports whether no proxy is between the client and the service.
func (f *Fresh) isDirect() bool {
	if f.address == "" || f.standard.Proxy == nil {
		return f.address != ""
	}
	proxy, err := f.standard.Proxy(&f.base)
	return proxy == nil && err == nil
}

// RoundTrip implements [http.RoundTripper].
func (f *Fresh) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host != f.base.URL.Host || !f.isDirect() {
		return f.standard.RoundTrip(r)
	}
	if f.sharing.canShare(r) {
		return f.roundTripEither(r)
	}
	own, err := f.connectionFor(r.Context(), f.tls1, nil)
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	return f.send(r, own)
}

// send sends a request through its own connection.
func (f *Fresh) send(r *http.Request, own *conn) (*http.Response, error) {
	ctx := r.Context()
	own.wire.deadline = deadlineIn(ctx)
	if !f.SpeaksHTTP2() {
		f.replenish()
	}
	defer own.closeUnlessTaken() // a request that net/http refuses takes no connection
	own.handover = handover{ctx, own}
	return f.given.RoundTrip(r.WithContext(&own.handover))
}

// connectionFor returns the connection of a request: prepared, spare or new. Only a new one can
// speak HTTP/2, if secure offers HTTP/2. The error is errAgain if ended is closed before all
// connections are no longer busy.
func (f *Fresh) connectionFor(ctx context.Context, secure *tls.Config, ended <-chan struct{}) (*conn, error) {
	if p, ok := ctx.Value(preparedContext{}).(*Prepared); ok {
		if c := p.take(); c != nil {
			return c, nil
		}
	}
	return f.connect(ctx, secure, ended)
}

// connect returns a spare or a new connection. It waits while all connections are busy.
func (f *Fresh) connect(ctx context.Context, secure *tls.Config, ended <-chan struct{}) (*conn, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if c := f.takeSpare(ctx); c != nil {
		return c, nil
	}
	return f.openNew(ctx, secure, ended)
}

// errAgain means: look for a connection again.
var errAgain = errors.New("transport: look for a connection again")

// openNew opens a connection. It waits while all connections are busy, at most until ended is closed
// unless ended is nil.
func (f *Fresh) openNew(ctx context.Context, secure *tls.Config, ended <-chan struct{}) (*conn, error) {
	if err := f.waitForRoom(ctx, ended); err != nil {
		return nil, err
	}
	c, err := f.open(ctx, secure)
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return c, err
}

// waitForRoom puts an element into f.conns. It closes idle connections for it.
func (f *Fresh) waitForRoom(ctx context.Context, ended <-chan struct{}) error {
	select {
	case f.conns <- struct{}{}:
		return nil
	default:
	}
	if shares := ended != nil; !shares {
		f.sharing.owners.Add(1)
		defer f.sharing.owners.Add(-1)
	}
	for {
		next := ended
		if next == nil {
			next = f.sharing.nextEnd()
		}
		select {
		case <-next:
		default:
			f.sharing.closeIdle()
		}
		select {
		case f.conns <- struct{}{}:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-next:
			if ended != nil {
				return errAgain
			}
		}
	}
}

var errHandshake error = timeoutError{redact.Text("the TLS handshake took too long")}

// timeoutError is a [net.Error].
type timeoutError struct{ error }

func (timeoutError) Timeout() bool   { return true }
func (timeoutError) Temporary() bool { return true }

// open opens a connection. The caller has put an element into f.conns, which the end of the
// connection takes out.
func (f *Fresh) open(ctx context.Context, config *tls.Config) (*conn, error) {
	var dialed net.Conn
	defer func() {
		if dialed == nil { // also after a panic of the caller's httptrace
			<-f.conns
		}
	}()
	dialed, err := f.dial(ctx, "tcp", f.address)
	if err != nil {
		return nil, err
	}
	c := &conn{wire: wireConn{Conn: dialed, counted: f.conns}, fresh: f, since: time.Now()}
	if c.Conn = &c.wire; config == nil {
		return c, nil
	}
	limited, stop := context.WithTimeout(ctx, f.standard.TLSHandshakeTimeout)
	defer stop()
	secure := tls.Client(&c.wire, config)
	if err := secure.HandshakeContext(limited); err != nil {
		_ = c.wire.Close()
		if limited.Err() != nil && ctx.Err() == nil {
			err = errHandshake
		}
		return nil, err
	}
	c.Conn = secure
	return c, nil
}

// handover is the context of a request with its connection. As a part of the connection it costs
// no allocation.
type handover struct {
	context.Context //nolint:containedctx // of the request

	conn *conn
}

type connContext struct{}

func (h *handover) Value(key any) any {
	if key == (connContext{}) {
		return h.conn
	}
	return h.Context.Value(key)
}

// handedOver dials for f.given.
func handedOver(ctx context.Context, _, _ string) (net.Conn, error) {
	if c, ok := ctx.Value(connContext{}).(*conn); ok && c.taken.CompareAndSwap(false, true) {
		if c.waited {
			return newWaited(c.handover.Context, c), nil
		}
		return c.Conn, nil
	}
	return nil, context.Canceled // the request has ended
}

// Close closes idle connections, and opens none ahead any more.
func (f *Fresh) Close() {
	f.spares.close()
	f.sharing.closeIdle()
}
