// Package transport makes the transports of a client whose mutations are sent once.
package transport

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lendingapi/lending-go/internal/neterr"
)

// New returns a transport for reads, with a limit on every stage and on connections. Idle
// connections live for a few seconds, far less than at a load balancer: a burst of reads shares a
// connection, and few requests meet a closing connection. The transport owns secure, which may be nil.
func New(secure *tls.Config) *http.Transport {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	if secure == nil {
		secure = &tls.Config{}
	}
	if secure.ClientSessionCache == nil {
		secure.ClientSessionCache = tls.NewLRUClientSessionCache(8) // for the connections of Fresh
	}
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSHandshakeTimeout:    10 * time.Second,
		ResponseHeaderTimeout:  100 * time.Second,
		ExpectContinueTimeout:  2 * time.Second,
		IdleConnTimeout:        4 * time.Second,
		MaxIdleConns:           64,
		MaxIdleConnsPerHost:    32,
		MaxConnsPerHost:        256, // counts connections being dialed, even for canceled calls
		MaxResponseHeaderBytes: 256 << 10,
		Protocols:              &protocols,
		TLSClientConfig:        secure,
	}
}

// Fresh is a transport for mutations and their checks. If the service speaks HTTP/2, requests
// share a connection: a response belongs to its stream. Over HTTP/1.1 each request has a
// connection on which nothing was sent before. A late or second response of the service then
// cannot answer the next mutation, or the next check, whose "not found" would resend a mutation.
//
// A mutation needs a [Send] as its context.
type Fresh struct {
	alone *http.Transport // over HTTP/1.1
	http2 atomic.Bool     // the last response came over HTTP/2
	calls chan struct{}   // an element for each request over HTTP/2

	mu      sync.Mutex
	shared  *http.Transport // net/http keeps no connection of HTTP/1.1, and shares those of HTTP/2
	former  *http.Transport // shared before; its last requests may go on
	sent    int             // requests over HTTP/2 through shared
	most    int             // after which another connection begins
	learned time.Time       // most, from a refusal
}

// A gateway ends a connection of HTTP/2 after a number of requests: nginx after 1,000, or as configured. The
// gateway refuses the requests on the way, and a mutation without a body becomes unknown. So another connection
// begins after maxRequests. If a gateway refuses a request earlier, the next connections carry nine tenths
// of that number for an hour, and at least minRequests: the gateway may have had another reason.
const (
	maxRequests = 900
	minRequests = 50
)

// maxCalls is the largest number of requests over HTTP/2 at once. Services allow 100 or more, and
// reset requests above their limit. StrictMaxConcurrentRequests of net/http is no substitute: with
// twice the limit of callers, Go 1.26 sends nothing more over the connection.
const maxCalls = 90

// NewFresh returns a transport with the limits and the TLS of like.
func NewFresh(like *http.Transport, http2 bool) *Fresh {
	t, dial := like.Clone(), like.DialContext
	t.MaxIdleConnsPerHost = -1
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &guarded{Conn: conn}, nil
	}
	f := &Fresh{alone: t, shared: t, calls: make(chan struct{}, maxCalls), most: maxRequests}
	if http2 {
		f.shared = t.Clone()
		f.shared.Protocols.SetHTTP2(true)
		f.shared.IdleConnTimeout = 30 * time.Second
		f.shared.HTTP2 = &http.HTTP2Config{
			SendPingTimeout: 4 * time.Second, PingTimeout: 3 * time.Second, WriteByteTimeout: 10 * time.Second,
		}
	}
	return f
}

// RoundTrip implements [http.RoundTripper]. A request with Close does not share a connection,
// which net/http would close for all.
func (f *Fresh) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Close {
		return f.alone.RoundTrip(r)
	}
	if f.SpeaksHTTP2() {
		select {
		case f.calls <- struct{}{}:
			defer func() { <-f.calls }()
		case <-r.Context().Done():
		}
		if r.Context().Err() != nil {
			return nil, context.Cause(r.Context())
		}
	}
	shared, n := f.next()
	resp, err := shared.RoundTrip(r)
	if neterr.IsUnprocessed(err) {
		f.learn(shared, n)
	}
	if err == nil {
		f.http2.Store(resp.ProtoMajor == 2)
	}
	return resp, err
}

// next returns the transport of a request, and the number of the request on its connection.
func (f *Fresh) next() (*http.Transport, int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.learned) > time.Hour {
		f.most = maxRequests
	}
	if f.SpeaksHTTP2() && f.sent >= f.most {
		f.renew()
	}
	f.sent++
	return f.shared, f.sent
}

// learn notes that the gateway has refused the request n of a connection.
func (f *Fresh) learn(on *http.Transport, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.most, f.learned = min(f.most, max(n*9/10, minRequests)), time.Now()
	if on == f.shared {
		f.renew()
	}
}

// renew has the next requests begin another connection.
func (f *Fresh) renew() {
	if f.former != nil {
		f.former.CloseIdleConnections()
	}
	f.shared, f.former, f.sent = f.shared.Clone(), f.shared, 0
}

// SpeaksHTTP2 reports whether requests share a connection at present.
func (f *Fresh) SpeaksHTTP2() bool { return f.http2.Load() }

// CloseIdleConnections closes the connections without requests.
func (f *Fresh) CloseIdleConnections() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.shared.CloseIdleConnections()
	if f.former != nil {
		f.former.CloseIdleConnections()
	}
	f.alone.CloseIdleConnections()
}
