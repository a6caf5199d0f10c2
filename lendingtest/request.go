package lendingtest

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

// bodyKept is the part of a body that the request log keeps.
const bodyKept = 64 << 10

// Request is a request in the request log.
type Request struct {
	Number int       // order of arrival, from 1
	Time   time.Time // by the service's clock
	Method string
	// Route is the route in the form of the interface, empty if no route matches.
	Route string
	// Path is the escaped path as received, including the base path.
	Path  string
	Query string // as received, including personal data
	// Header is a copy without Authorization; HasToken reports whether there was a token.
	Header   http.Header
	HasToken bool
	// Username is the account of the token, empty without a valid token.
	Username string
	Proto    string
	// Body is the first 64 KiB of the body; BodySize is the whole size that the service read.
	Body     []byte
	BodySize int64
	// Status is the status of the response, 0 for a reset connection or a request in progress.
	Status int
	// Answer is the first 8 KiB of the response.
	Answer []byte
	// Executed reports whether the route ran, as counted by [Service.Executed]. With
	// [Fault].Late it becomes true after the response.
	Executed bool
	// Duration is the time to the response, by the service's clock.
	Duration time.Duration
}

// entry is the row of a request in progress.
type entry struct {
	Request
	done     bool      // Status is final
	oversize bool      // Content-Length is too large, so the body is not read
	expects  bool      // the sender waits for 100 Continue
	rest     io.Reader // unread part of the body
	about    []string  // identifiers and e-mails of the request's resources
}

// keep needs s.mu.
func (e *entry) keep(b []byte) {
	e.BodySize += int64(len(b))
	e.Body = append(e.Body, b[:min(len(b), bodyKept-len(e.Body))]...)
}

// size returns the largest size of e in memory, which is known when the request arrives.
func (e *entry) size(r *http.Request) int {
	n := len(e.Path) + len(e.Query) + bodyKept
	if r.ContentLength >= 0 {
		n += int(min(r.ContentLength, bodyKept)) - bodyKept
	}
	for key, values := range e.Header {
		n += len(key) + len(strings.Join(values, ""))
	}
	return n
}

func (e *entry) copy() Request {
	c := e.Request
	c.Header, c.Body, c.Answer = e.Header.Clone(), slices.Clip(e.Body), slices.Clip(e.Answer) // their bytes never change, and copying 32 MiB would block every caller
	return c
}

// uploadReader records an upload while its handler reads it.
type uploadReader struct {
	io.Reader
	service *Service
	entry   *entry
}

func (r *uploadReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.service.mu.Lock()
	r.entry.keep(p[:n])
	r.service.mu.Unlock()
	return n, err
}

// enter records the arrival of a request.
func (s *Service) enter(pattern string, r *http.Request) *entry {
	path, _, _ := strings.Cut(r.RequestURI, "?") // r.URL may have lost the base path
	if path == "" {
		path = r.URL.EscapedPath()
	}
	e := &entry{rest: http.NoBody, Request: Request{
		Method: r.Method, Route: pattern, Path: path, Query: r.URL.RawQuery, Proto: r.Proto,
		Header: r.Header.Clone(), HasToken: r.Header.Get("Authorization") != "",
	}}
	e.Header.Del("Authorization")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.numbered++
	e.Number, e.Time = s.numbered, s.now()
	s.requests.add(e, e.size(r))
	if pattern != "" {
		s.arrived[pattern]++
	}
	return e
}

// Requests returns the request log in order of arrival: the last 10,000 requests or 32 MiB. A
// request is complete in the log before its caller receives the response.
func (s *Service) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Request, 0, len(s.requests.rows))
	for _, e := range s.requests.rows {
		all = append(all, e.copy())
	}
	return all
}

// Arrived returns the number of requests of a route, including faults and rejections.
func (s *Service) Arrived(route string) int {
	s.mustRoute(route)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.arrived[route]
}

// Outside returns the number of requests outside the base path.
func (s *Service) Outside() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.outside
}

// recorder completes the row of the request before the first byte of the response.
type recorder struct {
	http.ResponseWriter
	service *Service
	entry   *entry
	who     string // user name whose clock dates the response
}

// Unwrap makes http.ResponseController work.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (r *recorder) WriteHeader(status int) {
	if status >= 200 { // skips interim responses
		r.finish(status)
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	r.service.mu.Lock()
	r.service.keepAnswer(r.entry, b)
	r.service.mu.Unlock()
	r.finish(http.StatusOK)
	return r.ResponseWriter.Write(b)
}

func (r *recorder) finish(status int) {
	s := r.service
	s.mu.Lock()
	first := !r.entry.done
	if first {
		r.entry.done, r.entry.Status = true, status
		r.entry.Duration = s.now().Sub(r.entry.Time)
	}
	e := r.entry.copy()
	s.mu.Unlock()
	if first {
		s.notify(Event{Request: &e})
	}
}

// nowOf returns the service's time for an account.
func (s *Service) nowOf(username string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now().Add(s.shifts[username])
}

// abort closes the connection after the bytes written so far.
func (r *recorder) abort() {
	r.finish(0)
	panic(http.ErrAbortHandler)
}

// reset makes the caller see "connection reset by peer". On HTTP/2 and without sockets, where
// the connection is not available, reset aborts instead.
func (r *recorder) reset() {
	r.finish(0)
	conn, _, err := http.NewResponseController(r).Hijack()
	if err != nil {
		r.abort()
	}
	raw := conn
	if t, ok := raw.(*tls.Conn); ok {
		raw = t.NetConn()
	}
	if t, ok := raw.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	_ = raw.Close()
}

func tokenOf(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}
