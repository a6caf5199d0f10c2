package lendingtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// answerKept is the part of a response that the request log keeps.
const answerKept = 8 << 10

// The outcomes of a [RequestFilter].
const (
	OutcomeExecuted = "executed" // the route ran, and the caller received its response
	OutcomeRefused  = "refused"  // the route did not run; the response is an error or missing
	OutcomeLost     = "lost"     // the route ran, and its response was lost
)

// RequestFilter selects requests of the request log. The zero filter selects all requests.
type RequestFilter struct {
	Route   string
	Outcome string // OutcomeExecuted, OutcomeRefused or OutcomeLost
	// For is the identifier or e-mail of a customer, application or loan that the request is
	// about, or the user name of the caller.
	For    string
	Before int // only requests with a smaller number
	Limit  int // only this number of requests, the newest
}

func (f RequestFilter) check(s *Service) error {
	if f.Route != "" && s.routes[f.Route] == nil {
		return fmt.Errorf("no route %q; perhaps %q", f.Route, s.nearest(f.Route))
	}
	if !slices.Contains([]string{"", OutcomeExecuted, OutcomeRefused, OutcomeLost}, f.Outcome) {
		return fmt.Errorf("there is no outcome %q; use executed, refused or lost", f.Outcome)
	}
	return nil
}

func (f RequestFilter) fits(e *entry) bool {
	told := e.Status != 0 && e.Status < 400
	switch {
	case f.Route != "" && f.Route != e.Route,
		f.Before != 0 && e.Number >= f.Before,
		f.For != "" && f.For != e.Username && !slices.Contains(e.about, f.For),
		f.Outcome == OutcomeExecuted && !e.Executed,
		f.Outcome == OutcomeRefused && (e.Executed || told),
		f.Outcome == OutcomeLost && (!e.Executed || told):
		return false
	}
	return true
}

// Find returns the selected requests of the request log in order of arrival. Find panics if the
// route or the outcome does not exist.
func (s *Service) Find(f RequestFilter) []Request {
	if err := f.check(s); err != nil {
		panic("lendingtest: " + err.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all := []Request{}
	for _, e := range slices.Backward(s.requests.rows) {
		if f.Limit > 0 && len(all) == f.Limit {
			break
		}
		if f.fits(e) {
			all = append(all, e.copy())
		}
	}
	slices.Reverse(all)
	return all
}

// keepAnswer needs s.mu.
func (s *Service) keepAnswer(e *entry, b []byte) {
	b = b[:min(len(b), answerKept-len(e.Answer))]
	e.Answer = append(e.Answer, b...)
	if len(s.requests.rows) > 0 { // row numbers have no gaps
		if i := e.Number - s.requests.rows[0].Number; i >= 0 && i < len(s.requests.rows) && s.requests.rows[i] == e {
			s.requests.grow(i, len(b))
		}
	}
}

// requestForm is a request in JSON. Bodies are text.
type requestForm struct {
	Number   int         `json:"number"`
	Time     time.Time   `json:"time"`
	Method   string      `json:"method"`
	Route    string      `json:"route"`
	Path     string      `json:"path"`
	Query    string      `json:"query"`
	Header   http.Header `json:"header"`
	HasToken bool        `json:"hasToken"`
	Username string      `json:"username"`
	Proto    string      `json:"proto"`
	Body     string      `json:"body"`
	BodySize int64       `json:"bodySize"`
	Status   int         `json:"status"`
	Answer   string      `json:"answer"`
	Executed bool        `json:"executed"`
	Duration span        `json:"duration"`
}

// MarshalJSON encodes a request for another process, with body and response as text.
func (r Request) MarshalJSON() ([]byte, error) {
	return json.Marshal(requestForm{
		r.Number, r.Time, r.Method, r.Route, r.Path, r.Query, r.Header, r.HasToken, r.Username, r.Proto,
		string(r.Body), r.BodySize, r.Status, string(r.Answer), r.Executed, span(r.Duration),
	})
}

// UnmarshalJSON decodes the JSON of MarshalJSON.
func (r *Request) UnmarshalJSON(b []byte) error {
	var f requestForm
	if err := json.Unmarshal(b, &f); err != nil {
		return err
	}
	*r = Request{
		f.Number, f.Time, f.Method, f.Route, f.Path, f.Query, f.Header, f.HasToken, f.Username, f.Proto,
		[]byte(f.Body), f.BodySize, f.Status, []byte(f.Answer), f.Executed, f.Duration.duration(),
	}
	return nil
}
