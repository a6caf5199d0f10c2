// Package transport makes the transports of a client whose mutations are sent once.
package transport

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync/atomic"
	"time"
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
	shared atomic.Pointer[http.Transport] // net/http keeps no connection of HTTP/1.1, and shares those of HTTP/2
	alone  *http.Transport                // over HTTP/1.1
	http2  atomic.Bool                    // the last response came over HTTP/2
	calls  chan struct{}                  // an element for each request over HTTP/2
	former atomic.Pointer[http.Transport] // shared before; its last requests may go on
	sent   atomic.Uint64                  // requests over HTTP/2
}

// maxRequests is the number of requests after which Fresh begins another connection of HTTP/2. nginx ends a
// connection after 1,000, and then refuses the requests on the way: a mutation without a body becomes unknown.
const maxRequests = 900

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
	f := &Fresh{alone: t, calls: make(chan struct{}, maxCalls)}
	shared := t
	if http2 {
		shared = t.Clone()
		shared.Protocols.SetHTTP2(true)
		shared.IdleConnTimeout = 30 * time.Second
		shared.HTTP2 = &http.HTTP2Config{
			SendPingTimeout: 4 * time.Second, PingTimeout: 3 * time.Second, WriteByteTimeout: 10 * time.Second,
		}
	}
	f.shared.Store(shared)
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
		if f.sent.Add(1)%maxRequests == 0 {
			f.renew()
		}
	}
	resp, err := f.shared.Load().RoundTrip(r)
	if err == nil {
		f.http2.Store(resp.ProtoMajor == 2)
	}
	return resp, err
}

// renew has the next requests begin another connection.
func (f *Fresh) renew() {
	shared := f.shared.Load()
	f.shared.Store(shared.Clone())
	if older := f.former.Swap(shared); older != nil {
		older.CloseIdleConnections()
	}
}

// SpeaksHTTP2 reports whether requests share a connection at present.
func (f *Fresh) SpeaksHTTP2() bool { return f.http2.Load() }

// CloseIdleConnections closes the connections without requests.
func (f *Fresh) CloseIdleConnections() {
	f.shared.Load().CloseIdleConnections()
	if former := f.former.Load(); former != nil {
		former.CloseIdleConnections()
	}
	f.alone.CloseIdleConnections()
}
