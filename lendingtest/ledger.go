package lendingtest

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lendingapi/lending-go/lendingtest/internal/plain"
	"github.com/lendingapi/lending-go/lendingtest/internal/recent"
	"github.com/lendingapi/lending-go/lendingtest/internal/rules"
)

// The request log keeps these parts of a body and of a response.
const bodyKept, answerKept = 64 << 10, 8 << 10

// Request is a request in the request log.
type Request struct {
	Number int       `json:"number"` // order of arrival, from 1
	Time   time.Time `json:"time"`   // by the service's clock
	Method string    `json:"method"`
	// Route is the route in the form of the interface, empty if no route matches.
	Route string `json:"route"`
	// Path is the escaped path as received, including the base path.
	Path  string `json:"path"`
	Query string `json:"query"` // as received, including personal data
	// Header is a copy without Authorization.
	Header http.Header `json:"header"`
	// Username is the account of the token, empty without a valid token.
	Username string `json:"username"`
	Proto    string `json:"proto"`
	// Body is the first 64 KiB of the body, empty without a valid token.
	Body []byte `json:"body"`
	// Status is the status of the response, 0 for a reset connection or a request in progress.
	Status int `json:"status"`
	// Answer is the first 8 KiB of the response.
	Answer []byte `json:"answer"`
	// Executed reports whether the route ran, as counted by [Service.Executed]. With
	// [Fault].Late it becomes true after the response.
	Executed bool `json:"executed"`
	// Duration is the time to the response, by the service's clock.
	Duration time.Duration `json:"duration"`
	// About has the identifiers and e-mails of the customers, applications, loans and other records
	// that the request is about.
	About []string `json:"about,omitempty"`
	// Fault is the JSON of the [Fault] that the request met, empty if there was none.
	Fault string `json:"fault,omitempty"`
	// Assumed is the assumption on which the response rests, a name of docs/dev/assumptions.md. It is empty if
	// the interface publishes the rule, or a service.json of [WithService] has shown it.
	Assumed string `json:"assumed,omitempty"`
}

// MarshalJSON encodes a request for another process, with body and response as text.
func (r Request) MarshalJSON() ([]byte, error) { return plain.Marshal(r) }

// UnmarshalJSON decodes the JSON of MarshalJSON.
func (r *Request) UnmarshalJSON(b []byte) error { return plain.Unmarshal(b, r) }

// entry is the row of a request in progress.
type entry struct {
	Request
	done bool // Status is final
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

type ledger struct {
	now func() time.Time

	mu          sync.Mutex
	requests    recent.Log[*entry]
	numbered    int // number of requests so far
	arrived     map[string]int
	executed    map[string]int
	executedFor map[string]map[string]int // by route and resource
}

func (l *ledger) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests, l.numbered = recent.Log[*entry]{}, 0
	l.arrived, l.executed, l.executedFor = map[string]int{}, map[string]int{}, map[string]map[string]int{}
}

// enter records the arrival of a request.
func (l *ledger) enter(pattern string, r *http.Request) *entry {
	path, _, _ := strings.Cut(r.RequestURI, "?") // r.URL may have lost the base path
	e := &entry{Request: Request{
		Method: r.Method, Route: pattern, Path: cmp.Or(path, r.URL.EscapedPath()), Query: r.URL.RawQuery, Proto: r.Proto,
		Header: r.Header.Clone(),
	}}
	e.Header.Del("Authorization")
	l.mu.Lock()
	defer l.mu.Unlock()
	l.numbered++
	e.Number, e.Time = l.numbered, l.now()
	l.requests.Add(e, e.size(r))
	if pattern != "" {
		l.arrived[pattern]++
	}
	return e
}

func (l *ledger) change(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

// keepAnswer records a part of the response.
func (l *ledger) keepAnswer(e *entry, b []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b = b[:min(len(b), answerKept-len(e.Answer))]
	e.Answer = append(e.Answer, b...)
	if rows := l.requests.Rows(); len(rows) > 0 { // row numbers have no gaps
		if i := e.Number - rows[0].Number; i >= 0 && i < len(rows) && rows[i] == e {
			l.requests.Grow(i, len(b))
		}
	}
}

// finish completes the row of a request, and reports whether this is the first time.
func (l *ledger) finish(e *entry, status int) (row Request, first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if first = !e.done; first {
		e.done, e.Status, e.Duration = true, status, l.now().Sub(e.Time)
	}
	return e.copy(), first
}

// ran counts a run for all its resources.
func (l *ledger) ran(e *entry, about []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.Executed = true
	l.executed[e.Route]++
	for _, id := range about {
		if l.executedFor[e.Route] == nil {
			l.executedFor[e.Route] = map[string]int{}
		}
		l.executedFor[e.Route][id]++
	}
}

// Requests returns the request log in order of arrival: the last 10,000 requests or 32 MiB. A
// request is complete in the log before its caller receives the response.
func (l *ledger) Requests() []Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := []Request{}
	for _, e := range l.requests.Rows() {
		all = append(all, e.copy())
	}
	return all
}

// Arrived returns the number of requests of a route, including faults and rejections.
func (l *ledger) Arrived(route string) int {
	rules.MustExist(route)
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.arrived[route]
}

// Executed returns how often a route ran: how often it changed the state or served a read.
// Executed counts a request whose response was lost by [Fault].ResetAfter, and a mutation that
// [Fault].Late executed after its caller had gone. It does not count rejected requests, and no
// request that a fault stopped before the handler.
func (l *ledger) Executed(route string) int {
	rules.MustExist(route)
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.executed[route]
}

// ExecutedFor returns the same count by customer, application and loan, by any other record in
// the path or the query, and by user name for a sign-in. A run also counts for the owners of its
// record: a withdrawal counts for the loan, the application, the customer and the customer's
// e-mail. A creation also counts for the new record. For example, an application was created
// twice if
//
//	service.ExecutedFor("POST /api/Application/create-application")[customer.ID]
//
// is greater than one. If the path has no identifier, as in create-customer, use the e-mail.
// Identifiers are in lower case; e-mails are spelled as in the customer's record. A bulk request
// counts once for each of its records.
func (l *ledger) ExecutedFor(route string) map[string]int {
	rules.MustExist(route)
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Collect(maps.All(l.executedFor[route])) // never nil
}
