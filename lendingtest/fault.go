package lendingtest

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// Fault makes a route misbehave. The zero Fault lets it answer as usual; each
// field adds a misbehaviour, and they combine.
type Fault struct {
	// Status is answered instead of running the route.
	Status int
	// Body is sent with Status. Nil means a ProblemDetails, empty means none.
	Body []byte
	// ContentType goes with Body; without it there is no such header.
	ContentType string
	// Header is added to the answer that Status makes.
	Header http.Header
	// RetryAfter is sent in seconds with Status. For a date, use Header.
	RetryAfter time.Duration
	// Executes runs the route before Status is answered: it happened, and the
	// caller is told otherwise.
	Executes bool

	// AnswerDelay runs the route at once and answers so much later, as a slow service does:
	// a caller who gives up meanwhile has been served, and does it twice by sending it again.
	// It runs on real time or on the time of a testing/synctest bubble, and ends early with
	// the request, or with Close.
	AnswerDelay time.Duration

	// Reached is called when the fault shows, before it waits.
	Reached func()
	// DelayBefore waits before anything else. The route does not run for a caller who has
	// given up meanwhile. The time is that of AnswerDelay.
	DelayBefore time.Duration
	// Until waits like DelayBefore until the channel is closed.
	Until <-chan struct{}

	// ResetBefore resets the connection before the route runs.
	ResetBefore bool
	// ResetAfter resets the connection after the route ran: it happened, and
	// nobody is told.
	ResetAfter bool
	// CutBody ends the connection after so many bytes of the body; -1 means
	// after the header.
	CutBody int

	// Late lets the caller go without an answer, and takes the mutation up so much
	// later, whatever has become of the request: a settling that concludes from an
	// absence at once is wrong then, and a test with Late sees it. The connection is
	// reset at once; with Status, that is answered at once, as a gateway does whose
	// patience ends. DelayBefore and Until hold the request before that, and it need not
	// wait: Late counts from when it has ended, be it that the caller has left.
	//
	// The mutation is judged by the state of when it is taken up, token included, and
	// refused then as any other. It runs on the time of AnswerDelay. [Service.Wait]
	// waits for it, Close forgets it, and a request that has not arrived whole is not
	// executed at all. ResetBefore, ResetAfter and Executes add nothing to Late, and
	// CutBody cuts what Status answers.
	Late time.Duration

	// Patch changes the fields of the answer that the route makes.
	Patch *Patch

	// For limits the fault to requests of one account, by its user name, or about one
	// customer, application or loan, by its identifier or e-mail. Empty is all requests.
	For string

	// Times is how often the fault shows: once for 0, for ever for -1.
	Times int
}

// PlannedFault is a fault waiting for its request.
type PlannedFault struct {
	Route string `json:"route"` // "*" for all
	Fault Fault  `json:"fault"`
	Left  int    `json:"left"` // how often it still shows, below zero for ever
}

// Fail plans a fault for a route spelled as in the interface, for example
// "GET /api/Application/process-application/{applicationId}", or "*" for all
// routes. Faults of one route show one after another, those of "*" after the
// route's own. An unknown route panics.
func (s *Service) Fail(route string, f Fault) {
	if route != "*" {
		s.mustRoute(route)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	left := f.Times
	if left == 0 {
		left = 1
	}
	s.faults = append(s.faults, PlannedFault{Route: route, Fault: f, Left: left})
}

// Faults returns the faults that are planned, in the order of Fail.
func (s *Service) Faults() []PlannedFault {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.faults)
}

// ClearFaults forgets every planned fault.
func (s *Service) ClearFaults() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

func (s *Service) nextFault(c *call) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, wanted := range []string{c.route.pattern, "*"} {
		for i := range s.faults {
			p := &s.faults[i]
			if p.Route != wanted || !s.isAbout(c, p.Fault.For) {
				continue
			}
			fault := p.Fault
			p.Left-- // below zero it never comes back to zero
			if p.Left == 0 {
				s.faults = slices.Delete(s.faults, i, i+1)
			}
			return fault
		}
	}
	return Fault{}
}

// wait returns false when the request, or the service, ended first.
func (f Fault) wait(ctx context.Context, closed <-chan struct{}) bool {
	if f.Reached != nil {
		f.Reached()
	}
	if f.DelayBefore > 0 && !pause(ctx, f.DelayBefore, closed) {
		return false
	}
	if f.Until != nil {
		select {
		case <-f.Until:
		case <-ctx.Done():
			return false
		case <-closed:
			return false
		}
	}
	return true
}

// pause returns false when the request, or the service, ended first.
func pause(ctx context.Context, d time.Duration, closed <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	case <-closed:
		return false
	}
}

func (s *Service) faultAnswer(f Fault, r *http.Request) *answer {
	a := &answer{status: f.Status, body: f.Body}
	if f.Body == nil {
		a = s.problemAnswer(*problemOf(f.Status, "InjectedFault", "A test asked for this answer."), r.URL.Path)
	}
	if f.ContentType != "" {
		a.setHeader("Content-Type", f.ContentType)
	}
	if f.RetryAfter > 0 {
		a.setHeader("Retry-After", strconv.Itoa(int(f.RetryAfter.Seconds())))
	}
	for key, values := range canonical(f.Header) {
		a.setHeader(key, "")
		a.header[key] = values
	}
	return a
}

// canonical returns a header with what was told under several spellings of a name under one.
func canonical(told http.Header) http.Header {
	all := make(http.Header, len(told))
	for _, name := range slices.Sorted(maps.Keys(told)) {
		key := http.CanonicalHeaderKey(name)
		all[key] = append(all[key], told[name]...)
	}
	return all
}

// Answer replaces a route's answer by a handler of your own; nil brings the
// service's back. The handler sees path values, query and body, and is asked
// before the token is looked at. Faults that come before the route go before
// it, and so does Late, which executes the route itself; Executes, ResetAfter and
// CutBody have no hold on it.
func (s *Service) Answer(route string, h http.HandlerFunc) {
	s.mustRoute(route)
	s.mu.Lock()
	defer s.mu.Unlock()
	if h == nil {
		delete(s.answers, route)
		return
	}
	s.answers[route] = h
}

func (s *Service) replacement(pattern string) http.Handler {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answers[pattern]
}
