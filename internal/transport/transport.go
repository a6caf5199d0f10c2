// Package transport makes the transports of a client whose mutations are sent once.
package transport

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
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
	alone  *http.Transport // over HTTP/1.1
	any    *http.Transport // keeps no connection of HTTP/1.1
	shared *shared         // over HTTP/2
	calls  chan struct{}   // an element for each request over HTTP/2
}

// maxCalls is the largest number of requests over HTTP/2 at once. A burst of them needs a single connection at most
// services, which take 100 or more.
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
		g := &guarded{Conn: conn}
		if below, ok := ctx.Value(belowContext{}).(*net.Conn); ok {
			*below = g
		}
		return g, nil
	}
	f := &Fresh{alone: t, any: t, calls: make(chan struct{}, maxCalls)}
	if http2 {
		f.any = t.Clone()
		f.any.Protocols.SetHTTP2(true)
		f.any.IdleConnTimeout = 30 * time.Second
		f.any.HTTP2 = &http.HTTP2Config{
			SendPingTimeout: 4 * time.Second, PingTimeout: 3 * time.Second, WriteByteTimeout: 10 * time.Second,
		}
	}
	f.shared = newShared(f.any, http2)
	return f
}

// RoundTrip implements [http.RoundTripper]. A request with Close does not share a connection,
// which would be closed for all.
func (f *Fresh) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Close {
		return f.alone.RoundTrip(r)
	}
	if f.shared.isFor(r.URL) {
		select {
		case f.calls <- struct{}{}:
			defer func() { <-f.calls }()
		case <-r.Context().Done():
		}
		c, n, err := f.shared.reserve(r.Context(), r.URL)
		switch {
		case err != nil:
			if r.Body != nil {
				_ = r.Body.Close()
			}
			return nil, err
		case c != nil:
			return f.shared.roundTrip(c, n, r)
		}
	}
	resp, err := f.any.RoundTrip(r)
	if err == nil && resp.ProtoMajor == 2 {
		f.shared.speaks.Store(2)
	}
	return resp, err
}

// SpeaksHTTP2 reports whether requests share a connection at present.
func (f *Fresh) SpeaksHTTP2() bool { return f.shared.speaks.Load() == 2 }

// CloseIdleConnections closes the connections without requests.
func (f *Fresh) CloseIdleConnections() {
	f.shared.closeIdle()
	f.any.CloseIdleConnections()
	f.alone.CloseIdleConnections()
}
