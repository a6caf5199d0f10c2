// Package transport makes the transports of a client whose mutations are sent once.
package transport

import (
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
		TLSClientConfig:        &tls.Config{ClientSessionCache: tls.NewLRUClientSessionCache(8)}, // for the connections of Fresh
	}
}
