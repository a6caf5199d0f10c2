package lendingtest

import (
	"cmp"
	"context"
	_ "embed" // for openapi.yaml
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lendingapi/lending-go/internal/assumption"
	"github.com/lendingapi/lending-go/lendingtest/internal/book"
	"github.com/lendingapi/lending-go/lendingtest/internal/clock"
	"github.com/lendingapi/lending-go/lendingtest/internal/post"
	"github.com/lendingapi/lending-go/lendingtest/internal/rules"
)

// Service is the whole lending service in memory. It opens no socket. Use it as an
// [http.Handler] or through [Service.Transport]; [Server] is a service on a loopback port.
//
// All methods are safe for concurrent use, also while requests are in progress.
type Service struct {
	front
	closing sync.Once
}

// New returns a service that opens no socket.
func New(opts ...Option) *Service {
	cfg := defaultConfig()
	for _, opt := range opts {
		opt(&cfg)
	}
	s := &Service{}
	s.cfg = cfg
	s.clock, s.done = clock.New(cfg.clock), make(chan struct{})
	s.ledger.now = s.clock.Now
	s.post = &post.Office{Client: cfg.deliveryClient, Now: s.clock.Now}
	cfg.state.Clock, cfg.state.Post = s.clock, s.post.Put
	s.book = book.New(cfg.state)
	s.serveRoutes()
	s.Reset()
	return s
}

// Format prints "lendingtest service" for every verb, because the state changes while a program
// prints it. Tools that read fields with reflection, like testify when it prints a difference,
// ignore Format, so do not compare services.
func (s *Service) Format(f fmt.State, verb rune) { _, _ = io.WriteString(f, "lendingtest service") }

// Transport returns the service as a RoundTripper without sockets. Requests to any host reach
// the service and run in the caller's goroutine, so Transport works in testing/synctest: create
// the service inside the bubble.
//
// A reset is an error that wraps ECONNRESET. A cut body ends with io.ErrUnexpectedEOF.
func (s *Service) Transport() http.RoundTripper { return transport{s} }

// Close stops deliveries, ends the delays of responses and forgets the mutations that a [Fault]
// with Late has not executed yet. Later requests are answered with 503. After Close no goroutine
// of the service runs, except for requests in a server of the caller.
func (s *Service) Close() {
	s.closing.Do(func() { close(s.done) })
	s.post.Close()
	s.clock.Close()
	_ = s.Wait(context.Background()) // returns, because all tasks are cancelled
}

// Reset restores the state in which the service started: no records, request log, counters,
// faults, replaced responses, deliveries or pending decisions.
// Options stay.
//
// Identifiers start again from the first. Identifiers that a client has stored, for instance in
// an idempotency log, are then invalid or, worse, belong to other records, so clear both.
func (s *Service) Reset() {
	s.clock.Reset()
	s.book.Reset()
	s.lateRuns.clear()
	s.ledger.clear()
	s.faultPlan.clear()
	s.post.Reset()
	s.know(s.cfg.framework, s.cfg.known)
	s.SetDecision(s.cfg.decision)
	s.SetDeliveryMode(s.cfg.delivery)
}

// Wait returns when no mutation of a [Fault] with Late waits and no delivery is in progress, or
// with the error of ctx. Wait does not wait for held deliveries.
func (s *Service) Wait(ctx context.Context) error {
	for {
		busy := cmp.Or(s.lateRuns.busy(), s.post.Busy())
		if busy == nil {
			return nil
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Routes returns the 69 routes in the interface's order, in the form that the other methods take.
func (s *Service) Routes() []string {
	var all []string
	for _, rt := range rules.Routes() {
		all = append(all, rt.Pattern)
	}
	return all
}

// mayReceiveHTTP reports whether the options allow a webhook receiver with http.
func (c config) mayReceiveHTTP(u *url.URL) bool {
	return c.loopback && rules.Loopback(u.Host) ||
		slices.ContainsFunc(c.receivers, func(hostPort string) bool { return strings.EqualFold(hostPort, u.Host) })
}

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
	hs := httptest.NewUnstartedServer(s)
	hs.EnableHTTP2 = s.cfg.http2
	if s.known(assumption.KeepAlive, assumption.AfterPause) == assumption.NewConnection {
		hs.Config.IdleTimeout = time.Second // closed without a word
	}
	hs.Config.SetKeepAlivesEnabled(s.known(assumption.KeepAlive, assumption.InARow) != assumption.NewConnection)
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

//go:embed openapi.yaml
var openAPI string

// OpenAPI returns the service's description in OpenAPI 3, as YAML.
func OpenAPI() string { return openAPI }
