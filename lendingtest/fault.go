package lendingtest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/lendingapi/lending-go/lendingtest/internal/book"
	"github.com/lendingapi/lending-go/lendingtest/internal/clock"
	"github.com/lendingapi/lending-go/lendingtest/internal/plain"
	"github.com/lendingapi/lending-go/lendingtest/internal/rules"
)

// Fault makes a route misbehave. The zero Fault changes nothing. Each field adds a misbehaviour,
// and fields can be combined.
type Fault struct {
	// Status is the status of the response. The route does not run, unless Executes or Late is
	// set.
	Status int `json:"status,omitempty"`
	// Body is the body for Status. Nil means a ProblemDetails, empty means no body.
	Body []byte `json:"body,omitzero"`
	// ContentType is the content type of Body. Empty means no such header.
	ContentType string `json:"contentType,omitempty"`
	// Header is added to the response with Status.
	Header http.Header `json:"header,omitempty"`
	// RetryAfter is sent in seconds with Status. To send a date, use Header.
	RetryAfter time.Duration `json:"retryAfter,omitempty"`
	// Executes runs the route before the response with Status: the mutation has run, but the
	// response says otherwise.
	Executes bool `json:"executes,omitempty"`

	// AnswerDelay runs the route at once and delays the response, like a slow service: if the
	// caller gives up and sends the mutation again, it runs twice. The delay is in real time or
	// in the time of a testing/synctest bubble, and ends early if the request ends or the
	// service is closed.
	AnswerDelay time.Duration `json:"answerDelay,omitempty"`

	// Reached is called when the fault occurs, before any delay. It may wait, for instance for another request.
	Reached func() `json:"-"`
	// DelayBefore delays everything. The route does not run if the caller has given up
	// meanwhile. The delay is in the time of AnswerDelay.
	DelayBefore time.Duration `json:"delayBefore,omitempty"`

	// ResetBefore resets the connection before the route runs.
	ResetBefore bool `json:"resetBefore,omitempty"`
	// ResetAfter resets the connection after the route has run, so the response is lost.
	ResetAfter bool `json:"resetAfter,omitempty"`
	// CutBody closes the connection after this number of bytes of the body; -1 means after the
	// header.
	CutBody int `json:"cutBody,omitempty"`

	// Late executes the mutation only after this delay, when its caller has gone. A client that
	// reads at once and concludes that the mutation did not run is wrong; a test with Late finds
	// this.
	//
	// The service resets the connection at once. With Status it answers with this status at
	// once, like a gateway at its timeout. Reached and DelayBefore come before Late. DelayBefore ends
	// early if the caller leaves.
	//
	// When the time has come, the mutation runs, or is rejected, by the state and the tokens of
	// that moment. Late uses the time of AnswerDelay. [Service.Wait] waits for late mutations;
	// Close forgets them. A request that was not received completely is not executed.
	// ResetBefore, ResetAfter and Executes have no effect with Late, and CutBody cuts the
	// response with Status.
	Late time.Duration `json:"late,omitempty"`

	// Times is the number of requests with the fault: 0 means once, -1 means always.
	Times int `json:"times,omitempty"`
}

// PlannedFault is a fault that waits for a request.
type PlannedFault struct {
	Route string `json:"route"` // "*" for all routes
	Fault Fault  `json:"fault"`
	Left  int    `json:"left"` // remaining requests; negative means no limit
}

// MarshalJSON encodes a fault for another process: durations like "1m30s", Body as text.
// MarshalJSON returns an error for Reached, and for a Body that is not text.
func (f Fault) MarshalJSON() ([]byte, error) {
	if f.Reached != nil {
		return nil, errors.New("lendingtest: a Fault with Reached cannot be sent to another process; use Service.Fail")
	}
	if !utf8.Valid(f.Body) {
		return nil, errors.New("lendingtest: the Body of the Fault is not UTF-8 text and cannot be sent to another process")
	}
	return plain.Marshal(f)
}

// UnmarshalJSON decodes the JSON of MarshalJSON and rejects unknown names.
func (f *Fault) UnmarshalJSON(b []byte) error { return plain.Unmarshal(b, f) }

// Check returns an error for a fault that would never happen or that cannot be sent.
func (f Fault) Check() error {
	switch {
	case f.Late < 0 || f.AnswerDelay < 0 || f.DelayBefore < 0 || f.RetryAfter < 0:
		return errors.New("a duration is negative")
	case f.Times < -1:
		return errors.New("times must be a number from 1, or -1 for always")
	case f.CutBody < -1:
		return errors.New("cutBody must be a number of bytes, or -1 for an empty body")
	case f.Status != 0 && (f.Status < 200 || f.Status > 999):
		return fmt.Errorf("a status of %d cannot be answered", f.Status)
	case f.Status == 0 && f.AnswerDelay == 0 && f.DelayBefore == 0 && f.Late == 0 && f.CutBody == 0 && !f.ResetBefore && !f.ResetAfter:
		return errors.New("the fault changes nothing; set status, answerDelay, delayBefore, late, cutBody, resetBefore or resetAfter")
	}
	return nil
}

// text returns the fault for the request log, or "" if there is none.
func (f Fault) text() string {
	if reflect.ValueOf(f).IsZero() {
		return ""
	}
	if f.Body != nil {
		f.Body = bytes.ToValidUTF8(f.Body, []byte("?"))
	}
	if text, err := plain.Marshal(f); err == nil && string(text) != "{}" {
		return string(text)
	}
	return ""
}

// faultPlan has the planned faults and the replaced responses.
type faultPlan struct {
	mu      sync.Mutex
	faults  []PlannedFault
	answers map[string]http.HandlerFunc
}

func (p *faultPlan) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults, p.answers = nil, map[string]http.HandlerFunc{}
}

// Fail plans a fault for a route such as "GET
// /api/Application/process-application/{applicationId}", or "*" for all routes. The faults of a
// route occur one after another, and then those of "*". Fail panics if the route is unknown.
func (p *faultPlan) Fail(route string, f Fault) {
	if route != "*" {
		rules.MustExist(route)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, PlannedFault{Route: route, Fault: f, Left: cmp.Or(f.Times, 1)})
}

// Faults returns the planned faults in the order of Fail.
func (p *faultPlan) Faults() []PlannedFault {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.faults)
}

// ClearFaults removes all planned faults.
func (p *faultPlan) ClearFaults() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = nil
}

func (p *faultPlan) next(route string) Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, wanted := range []string{route, "*"} {
		i := slices.IndexFunc(p.faults, func(planned PlannedFault) bool { return planned.Route == wanted })
		if i < 0 {
			continue
		}
		fault := p.faults[i].Fault
		p.faults[i].Left-- // a negative number stays negative
		if p.faults[i].Left == 0 {
			p.faults = slices.Delete(p.faults, i, i+1)
		}
		return fault
	}
	return Fault{}
}

func (f Fault) answer(b *book.Book, path string) *rules.Answer {
	a := &rules.Answer{Status: f.Status, Header: http.Header{}, Body: f.Body}
	if f.Body == nil {
		a = rules.Refusal(b, rules.Refuse(f.Status, "InjectedFault", "A test asked for this answer."), path)
	}
	if f.ContentType != "" {
		a.Header.Set("Content-Type", f.ContentType)
	}
	if f.RetryAfter > 0 {
		a.Header.Set("Retry-After", strconv.Itoa(int(f.RetryAfter.Seconds())))
	}
	for name, values := range f.Header {
		a.Header[http.CanonicalHeaderKey(name)] = values
	}
	return a
}

// Answer replaces the responses of a route with a handler; nil restores the route. The handler
// can use path values, query and body. The service calls the handler before it checks the token.
// Faults that occur before the route still occur. A fault with Late executes the route itself.
// Executes, ResetAfter and CutBody have no effect.
func (p *faultPlan) Answer(route string, h http.HandlerFunc) {
	rules.MustExist(route)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers[route] = h
}

func (p *faultPlan) replacement(pattern string) http.HandlerFunc {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.answers[pattern]
}

// maxLate limits the mutations that wait for their late execution, because each keeps its body in
// memory.
const maxLate = 1000

var errTooManyLate = rules.Refuse(http.StatusServiceUnavailable, "TooManyLate", "Too many mutations wait to be executed late.")

// lateRuns has the mutations whose callers have gone.
type lateRuns struct {
	mu      sync.Mutex
	waiting int
	idle    chan struct{} // closed when the last has run, nil if none waits
	forget  func()
	kept    context.Context //nolint:containedctx // of the waiting mutations: it ends with the next clear
}

// clear cancels the waiting mutations.
func (l *lateRuns) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.forget != nil {
		l.forget()
	}
	l.kept, l.forget = context.WithCancel(context.Background())
}

// reserve makes room for a mutation. The result starts the mutation, which runs after d unless it
// is cancelled before.
func (l *lateRuns) reserve(d time.Duration, closed <-chan struct{}, run func()) (start func(), refused *rules.Problem) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting >= maxLate {
		return nil, errTooManyLate
	}
	if l.waiting == 0 {
		l.idle = make(chan struct{})
	}
	l.waiting++
	kept := l.kept
	return func() {
		go func() {
			defer l.leave()
			if clock.Pause(kept, d, closed) {
				run()
			}
		}()
	}, nil
}

func (l *lateRuns) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting--; l.waiting == 0 {
		close(l.idle)
		l.idle = nil
	}
}

// busy returns a channel that is closed when no mutation waits, or nil if none does.
func (l *lateRuns) busy() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.idle
}
