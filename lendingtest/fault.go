package lendingtest

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// Fault makes a route misbehave. The zero Fault changes nothing. Each field adds a misbehaviour,
// and fields can be combined.
type Fault struct {
	// Status is the status of the response. The route does not run, unless Executes or Late is
	// set.
	Status int
	// Body is the body for Status. Nil means a ProblemDetails, empty means no body.
	Body []byte
	// ContentType is the content type of Body. Empty means no such header.
	ContentType string
	// Header is added to the response with Status.
	Header http.Header
	// RetryAfter is sent in seconds with Status. To send a date, use Header.
	RetryAfter time.Duration
	// Executes runs the route before the response with Status: the mutation has run, but the
	// response says otherwise.
	Executes bool

	// AnswerDelay runs the route at once and delays the response, like a slow service: if the
	// caller gives up and sends the mutation again, it runs twice. The delay is in real time or
	// in the time of a testing/synctest bubble, and ends early if the request ends or the
	// service is closed.
	AnswerDelay time.Duration

	// Reached is called when the fault occurs, before any delay.
	Reached func()
	// DelayBefore delays everything. The route does not run if the caller has given up
	// meanwhile. The delay is in the time of AnswerDelay.
	DelayBefore time.Duration
	// Until delays like DelayBefore, until the channel is closed.
	Until <-chan struct{}

	// ResetBefore resets the connection before the route runs.
	ResetBefore bool
	// ResetAfter resets the connection after the route has run, so the response is lost.
	ResetAfter bool
	// CutBody closes the connection after this number of bytes of the body; -1 means after the
	// header.
	CutBody int

	// Late executes the mutation only after this delay, when its caller has gone. A client that
	// reads at once and concludes that the mutation did not run is wrong; a test with Late finds
	// this.
	//
	// The service resets the connection at once. With Status it answers with this status at
	// once, like a gateway at its timeout. DelayBefore and Until come before Late, and end early
	// if the caller leaves.
	//
	// When the time has come, the mutation runs, or is rejected, by the state and the tokens of
	// that moment. Late uses the time of AnswerDelay. [Service.Wait] waits for late mutations;
	// Close forgets them. A request that was not received completely is not executed.
	// ResetBefore, ResetAfter and Executes have no effect with Late, and CutBody cuts the
	// response with Status.
	Late time.Duration

	// Patch changes the fields of the route's response.
	Patch *Patch

	// For limits the fault to the requests of an account (its user name), or to requests about a
	// customer, application or loan (an identifier or e-mail). Empty means all requests.
	For string

	// Times is the number of requests with the fault: 0 means once, -1 means always.
	Times int
}

// PlannedFault is a fault that waits for a request.
type PlannedFault struct {
	Route string `json:"route"` // "*" for all routes
	Fault Fault  `json:"fault"`
	Left  int    `json:"left"` // remaining requests; negative means no limit
}

// Fail plans a fault for a route such as "GET
// /api/Application/process-application/{applicationId}", or "*" for all routes. The faults of a
// route occur one after another, and then those of "*". Fail panics if the route is unknown.
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

// Faults returns the planned faults in the order of Fail.
func (s *Service) Faults() []PlannedFault {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.faults)
}

// ClearFaults removes all planned faults.
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
			p.Left-- // a negative number stays negative
			if p.Left == 0 {
				s.faults = slices.Delete(s.faults, i, i+1)
			}
			return fault
		}
	}
	return Fault{}
}

// wait returns false if the request or the service ends first.
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

// pause returns false if the request or the service ends first.
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

// canonical returns the header with its names in canonical form, values of the same name
// combined.
func canonical(told http.Header) http.Header {
	all := make(http.Header, len(told))
	for _, name := range slices.Sorted(maps.Keys(told)) {
		key := http.CanonicalHeaderKey(name)
		all[key] = append(all[key], told[name]...)
	}
	return all
}

// Answer replaces the responses of a route with a handler; nil restores the route. The handler
// can use path values, query and body. The service calls the handler before it checks the token.
// Faults that occur before the route still occur. A fault with Late executes the route itself.
// Executes, ResetAfter and CutBody have no effect.
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
