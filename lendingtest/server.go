package lendingtest

import (
	"net/http"
	"net/http/httptest"
)

// Server is a [Service] that listens on a loopback port.
type Server struct {
	*Service
	// URL is the address of the service, including the base path, without a trailing slash.
	URL string

	http *httptest.Server
}

// NewServer starts a service on a free loopback port. It needs no testing.TB. NewServer panics
// if there is no free port, like [httptest.NewServer].
func NewServer(opts ...Option) *Server {
	s := New(opts...)
	hs := httptest.NewUnstartedServer(s.Handler())
	hs.EnableHTTP2 = s.cfg.http2
	if s.cfg.tls {
		hs.StartTLS()
	} else {
		hs.Start()
	}
	return &Server{Service: s, URL: hs.URL + s.cfg.basePath, http: hs}
}

// Client returns a client that trusts the server's certificate.
func (s *Server) Client() *http.Client { return s.http.Client() }

// Close stops the service and the listener, and waits for requests in progress.
func (s *Server) Close() {
	s.Service.Close() // first, because this ends delayed responses
	s.http.Close()
}
