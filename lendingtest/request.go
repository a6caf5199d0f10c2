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

// bodyKept is how much of a body the request log keeps.
const bodyKept = 64 << 10

// Request is one request in the request log.
type Request struct {
	Number int       // by which it arrived, from 1
	Time   time.Time // by the service's clock
	Method string
	// Route is the matched route as the interface spells it, empty for none.
	Route string
	// Path is the escaped path as it came, base path included.
	Path  string
	Query string // as it came, personal data included
	// Header is a copy without Authorization, of which HasToken tells.
	Header   http.Header
	HasToken bool
	// Username is the account that the token belongs to, empty without a valid one.
	Username string
	Proto    string
	// Body is the first 64 KiB of what the service read; BodySize counts all.
	Body     []byte
	BodySize int64
	// Status is what was answered, 0 for a reset connection or while serving.
	Status int
	// Answer is the first 8 KiB of what was answered.
	Answer []byte
	// Executed tells whether the route did its work, as it does for the method of
	// that name. With [Fault].Late it is false until it happens, after the answer.
	Executed bool
	// Duration is how long the answer took, by the service's clock.
	Duration time.Duration
}

// entry is a request in the request log while it is served.
type entry struct {
	Request
	done     bool      // Status is final
	oversize bool      // too large by its own Content-Length, and left unread
	expects  bool      // the sender waits for 100 Continue
	rest     io.Reader // what has not been read of the body
	about    []string  // identifiers and e-mails that the request concerns
}

// keep needs s.mu.
func (e *entry) keep(b []byte) {
	e.BodySize += int64(len(b))
	e.Body = append(e.Body, b[:min(len(b), bodyKept-len(e.Body))]...)
}

// size is what e takes at most, known when the request arrives.
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
	c.Header, c.Body, c.Answer = e.Header.Clone(), slices.Clip(e.Body), slices.Clip(e.Answer) // whose bytes stay as they are: to copy 32 MiB would hold up every caller
	return c
}

// uploadReader notes an upload while it is read.
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

// enter notes a request's arrival.
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

// Requests returns the request log in order of arrival, of which the service keeps the
// last 10,000 requests or 32 MiB. A request is complete in it
// before its caller sees the answer.
func (s *Service) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Request, 0, len(s.requests.rows))
	for _, e := range s.requests.rows {
		all = append(all, e.copy())
	}
	return all
}

// Arrived tells how often a route was called, faults and refusals included.
func (s *Service) Arrived(route string) int {
	s.mustRoute(route)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.arrived[route]
}

// Outside tells how many requests missed the base path.
func (s *Service) Outside() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.outside
}

// recorder completes the request before the first byte goes out.
type recorder struct {
	http.ResponseWriter
	service *Service
	entry   *entry
	who     string // user name, by whose clock the answer is dated
}

// Unwrap lets http.ResponseController through.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (r *recorder) WriteHeader(status int) {
	if status >= 200 { // an interim answer is not the answer
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

// abort ends the request with what has been written so far.
func (r *recorder) abort() {
	r.finish(0)
	panic(http.ErrAbortHandler)
}

// reset makes the caller see "connection reset by peer". Where the connection
// cannot be had, on HTTP/2 and without sockets, the nearest thing is an abort.
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
