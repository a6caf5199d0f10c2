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

// Service is the whole lending service in memory. It opens no socket and runs
// nothing in the background by itself: use it as an [http.Handler], or through
// [Service.Transport]. [Server] puts it on a loopback port.
//
// All methods may be called by several goroutines at once, also while requests
// are being served.
type Service struct {
	cfg    config
	mux    *http.ServeMux
	routes map[string]*route
	done   chan struct{} // closed by Close

	mu        sync.Mutex // guards everything below
	closed    bool
	offset    time.Duration
	sequences map[idKind]int
	codes     int

	jobs     []*job // by time
	steps    []Step // of scenarios, which wait for a route
	decision Decision
	shifts   map[string]time.Duration // of the clock, by user name
	shift    time.Duration            // that is in force

	accounts  map[string]*Account
	tokens    map[string]*session
	twoFactor map[string]*oneTimeCode
	sweepAt   int // so many tokens
	payloads  recent[[]byte]
	tables
	lag     lag
	started Snapshot // what Reset goes back to

	faults      []PlannedFault
	answers     map[string]http.Handler
	arrived     map[string]int
	executed    map[string]int
	executedFor map[string]map[string]int // by route and resource
	requests    recent[*entry]
	numbered    int // how many requests there were
	outside     int
	sent        recent[Sent]
	post        postOffice
	late        lateCommands

	watchers    map[int]func(Event)
	lastWatcher int
}

// Format prints "lendingtest service" under every verb: what the service holds changes
// while it is printed. Tools that call no methods, as testify does with what differs,
// walk it all the same: compare no services.
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
	// Also takes a known path with another method, which the interface answers with 404.
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

// Handler returns the service as a handler, base path included.
func (s *Service) Handler() http.Handler { return http.HandlerFunc(s.ServeHTTP) }

// ServeHTTP answers one request.
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
	// ServeMux would answer an unclean path with a redirect; this service sends none.
	if path.Clean(rest) != rest {
		s.serveNotFound(w, r)
		return
	}
	http.StripPrefix(s.cfg.basePath, s.mux).ServeHTTP(w, r)
}

// Close stops deliveries, releases delayed answers, and forgets the mutations that
// a [Fault] with Late has not executed yet. Later requests are answered with 503. When it returns, nothing of the service runs any more,
// requests being served by somebody else's server excepted.
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
	_ = s.Wait(context.Background()) // what was on its way has been cancelled: this ends
}

// Now returns the service's time: its clock, moved by [Service.Advance].
func (s *Service) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now()
}

// Advance moves the service's time forward, or back. Tokens, codes and offers
// expire by it, and decisions and repayments that have become due happen before Advance
// returns. A [Fault] delay runs on real time.
func (s *Service) Advance(d time.Duration) {
	s.mu.Lock()
	s.offset += d
	s.mu.Unlock()
	s.catchUpJobs()
}

// advance refuses a time that no timestamp of the service could show.
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
		return errors.New("advance wants by")
	}
	if offset := s.offset + d; (d > 0) != (offset > s.offset) {
		return errors.New("the clock cannot be moved so far")
	}
	if then := s.now().Add(d); then.Year() < 1970 || then.Year() > 9999 {
		return fmt.Errorf("the clock would show the year %d", then.Year())
	}
	return nil
}

// now needs s.mu. It is the time of the account that is being served.
func (s *Service) now() time.Time { return s.base().Add(s.shift) }

// base is the time of all accounts that [Service.AdvanceFor] has not moved. It needs s.mu.
func (s *Service) base() time.Time { return s.cfg.clock().UTC().Add(s.offset) }

// mustRoute panics for a route that the interface does not have: a test that
// misspells one would wait for ever for its fault to show.
func (s *Service) mustRoute(spelled string) {
	if _, ok := s.routes[spelled]; !ok {
		panic(fmt.Sprintf("lendingtest: no route %q; perhaps %q; Routes returns all", spelled, s.nearest(spelled)))
	}
}

// nearest returns the route whose path begins most as that of spelled does.
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

// Routes returns the 69 routes as the other methods want them spelled, in the
// interface's order.
func (s *Service) Routes() []string {
	var all []string
	for _, rt := range routeTable() {
		all = append(all, rt.pattern)
	}
	return all
}
