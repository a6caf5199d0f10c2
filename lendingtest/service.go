package lendingtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"
)

// Service is the whole lending service in memory. It opens no socket. Use it as an
// [http.Handler] or through [Service.Transport]; [Server] is a service on a loopback port.
//
// All methods are safe for concurrent use, also while requests are in progress.
type Service struct {
	cfg    config
	mux    *http.ServeMux
	routes map[string]*route
	done   chan struct{} // closed by Close

	mu        sync.Mutex // guards all fields below
	closed    bool
	offset    time.Duration
	sequences map[idKind]int
	codes     int

	jobs     []*job // by time
	steps    []Step // steps of scenarios that wait for a route
	decision Decision
	shifts   map[string]time.Duration // of the clock, by user name
	shift    time.Duration            // current shift of the clock

	accounts  map[string]*Account
	tokens    map[string]*session
	twoFactor map[string]*oneTimeCode
	sweepAt   int // number of tokens for the next sweep
	payloads  recent[[]byte]
	tables
	lag     lag
	started Snapshot // the state for Reset

	faults      []PlannedFault
	answers     map[string]http.Handler
	arrived     map[string]int
	executed    map[string]int
	executedFor map[string]map[string]int // by route and resource
	requests    recent[*entry]
	numbered    int // number of requests so far
	outside     int
	sent        recent[Sent]
	post        postOffice
	late        lateCommands

	watchers    map[int]func(Event)
	lastWatcher int
}

// Format prints "lendingtest service" for every verb, because the state changes while a program
// prints it. Tools that read fields with reflection, like testify when it prints a difference,
// ignore Format, so do not compare services.
func (s *Service) Format(f fmt.State, verb rune) { _, _ = io.WriteString(f, "lendingtest service") }

// New returns a service that opens no socket.
func New(opts ...Option) *Service {
	s := &Service{
		cfg:         defaultConfig(),
		mux:         http.NewServeMux(),
		routes:      map[string]*route{},
		done:        make(chan struct{}),
		sequences:   map[idKind]int{},
		accounts:    map[string]*Account{},
		shifts:      map[string]time.Duration{},
		tokens:      map[string]*session{},
		twoFactor:   map[string]*oneTimeCode{},
		answers:     map[string]http.Handler{},
		arrived:     map[string]int{},
		executed:    map[string]int{},
		executedFor: map[string]map[string]int{},
		watchers:    map[int]func(Event){},
	}
	for _, opt := range opts {
		opt(&s.cfg)
	}
	for _, a := range s.cfg.accounts {
		s.accounts[a.Username] = &a
	}
	s.started = s.snapshot()
	if s.cfg.restore != nil {
		if err := s.Restore(*s.cfg.restore); err != nil {
			panic(err.Error())
		}
		s.started = *s.cfg.restore
	}
	for _, rt := range routeTable() {
		s.routes[rt.pattern] = &rt
		s.mux.HandleFunc(rt.pattern, func(w http.ResponseWriter, r *http.Request) {
			s.serveRoute(&rt, w, r)
		})
	}
	// The handler also gets known paths with another method, which the interface answers with
	// 404.
	s.mux.HandleFunc("/", s.serveNotFound)
	if s.cfg.requestLog != nil {
		s.Watch(func(e Event) {
			if e.Request != nil {
				s.cfg.requestLog(*e.Request)
			}
		})
	}
	return s
}

// Handler returns the service as a handler, including the base path.
func (s *Service) Handler() http.Handler { return http.HandlerFunc(s.ServeHTTP) }

// ServeHTTP answers a request.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	escaped := r.URL.EscapedPath()
	rest, ok := strings.CutPrefix(escaped, s.cfg.basePath)
	if !ok || !strings.HasPrefix(rest, "/") {
		s.mu.Lock()
		s.outside++
		s.mu.Unlock()
		s.serveNotFound(w, r)
		return
	}
	// ServeMux would redirect an unclean path; this service never redirects.
	if path.Clean(rest) != rest {
		s.serveNotFound(w, r)
		return
	}
	http.StripPrefix(s.cfg.basePath, s.mux).ServeHTTP(w, r)
}

// Close stops deliveries, ends the delays of responses and forgets the mutations that a [Fault]
// with Late has not executed yet. Later requests are answered with 503. After Close no goroutine
// of the service runs, except for requests in a server of the caller.
func (s *Service) Close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.done)
		s.post.stop()
		s.late.drop()
		s.dropJobs()
	}
	s.mu.Unlock()
	_ = s.Wait(context.Background()) // returns, because all tasks are cancelled
}

// Now returns the service's time: its clock plus the changes of [Service.Advance].
func (s *Service) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now()
}

// Advance moves the service's clock, also back for a negative d. Tokens, codes and offers expire
// by this clock. Decisions and repayments that become due happen before Advance returns. The
// delays of a [Fault] are in real time.
func (s *Service) Advance(d time.Duration) {
	s.mu.Lock()
	s.offset += d
	s.mu.Unlock()
	s.catchUpJobs()
}

// advance rejects a time outside the range of the service's timestamps.
func (s *Service) advance(d time.Duration, username string) error {
	if err := s.mayAdvance(d); err != nil {
		return err
	}
	if username != "" {
		s.AdvanceFor(username, d)
	} else {
		s.Advance(d)
	}
	return nil
}

func (s *Service) mayAdvance(d time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d == 0 {
		return errors.New("advance needs by")
	}
	if offset := s.offset + d; (d > 0) != (offset > s.offset) {
		return errors.New("the clock cannot move this far")
	}
	if then := s.now().Add(d); then.Year() < 1970 || then.Year() > 9999 {
		return fmt.Errorf("the clock would show the year %d", then.Year())
	}
	return nil
}

// now returns the time of the current request's account. It needs s.mu.
func (s *Service) now() time.Time { return s.base().Add(s.shift) }

// base returns the common time of all accounts, without the changes of [Service.AdvanceFor]. It
// needs s.mu.
func (s *Service) base() time.Time { return s.cfg.clock().UTC().Add(s.offset) }

// mustRoute panics for an unknown route. Otherwise a test with a misspelled route would wait for
// ever for its fault.
func (s *Service) mustRoute(spelled string) {
	if _, ok := s.routes[spelled]; !ok {
		panic(fmt.Sprintf("lendingtest: no route %q; perhaps %q; Routes returns all", spelled, s.nearest(spelled)))
	}
}

// nearest returns the route whose path has the longest common prefix with spelled.
func (s *Service) nearest(spelled string) (route string) {
	_, path, _ := strings.Cut(spelled, " ")
	most := -1
	for _, candidate := range s.Routes() {
		_, other, _ := strings.Cut(candidate, " ")
		n := 0
		for n < min(len(path), len(other)) && path[n] == other[n] {
			n++
		}
		if n > most {
			most, route = n, candidate
		}
	}
	return route
}

// Routes returns the 69 routes in the interface's order, in the form that the other methods take.
func (s *Service) Routes() []string {
	var all []string
	for _, rt := range routeTable() {
		all = append(all, rt.pattern)
	}
	return all
}
