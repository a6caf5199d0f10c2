package lendingtest

import (
	"net/http"
	"net/http/httptest"
)

// Server is a [Service] that listens on a loopback port.
type Server struct {
	*Service
	// URL is where the service listens, without a trailing slash and with the
	// base path if one was given.
	URL string

	http *httptest.Server
}

// NewServer starts a service on a free loopback port. It needs no testing.TB.
// It panics where no port can be had, as [httptest.NewServer] does.
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

// Close stops the service and the listener, and waits for requests being served.
func (s *Server) Close() {
	s.Service.Close() // first: it lets delayed answers go
	s.http.Close()
}
