// Package transport makes the transports of a client whose mutations are sent once.
package transport

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"
)

// New returns a transport with a limit on every stage and on connections. Idle connections live
// for a few seconds, far less than at a load balancer: a burst of reads shares a connection, and
// few requests meet a closing connection.
func New(maxConns int) *http.Transport {
	var protocols http.Protocols
	protocols.SetHTTP1(true) // HTTP/2 repeats requests by itself after some resets
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSHandshakeTimeout:    10 * time.Second,
		ResponseHeaderTimeout:  100 * time.Second,
		ExpectContinueTimeout:  2 * time.Second,
		IdleConnTimeout:        4 * time.Second,
		MaxIdleConns:           64,
		MaxIdleConnsPerHost:    32,
		MaxConnsPerHost:        maxConns, // counts connections being dialed, even for canceled calls
		MaxResponseHeaderBytes: 256 << 10,
		Protocols:              &protocols,
		TLSClientConfig:        &tls.Config{ClientSessionCache: tls.NewLRUClientSessionCache(8)}, // for those of OnceEach
	}
}

// OnceEach returns a transport like another, with a new connection for each request. A late or
// second response of the service then cannot answer the next mutation, or the next check, whose
// "not found" would resend a mutation. Looking for bytes on a kept connection before its next
// use is not enough: bytes may still be on their way. A mutation also never meets a closing
// connection.
//
// The connection of a request with a context of [WithDeadline] writes nothing after the deadline.
func OnceEach(like *http.Transport) *http.Transport {
	once := like.Clone()
	once.DisableKeepAlives = true
	dial := like.DialContext
	once.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if deadline, ok := ctx.Value(deadlineContext{}).(*Deadline); ok && err == nil {
			conn = &timelyConn{Conn: conn, deadline: deadline}
		}
		return conn, err
	}
	return once
}
