package lendingtest

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
)

// hostLimit is the size of a body that an ASP.NET host rejects before the request reaches a
// controller.
const hostLimit = 30_000_000

// serveRoute takes one request through the stages of the service: arrival, fault, replacement,
// host, sign-in, handler.
//
//nolint:funlen // one paragraph for each stage
func (s *Service) serveRoute(rt *route, w http.ResponseWriter, r *http.Request) {
	if r.Method != rt.method() { // ServeMux also routes HEAD to GET routes, and some of those change state
		s.serveNotFound(w, r)
		return
	}
	s.catchUpJobs()
	r = r.WithContext(r.Context()) // a copy, because net/http uses the Body of its own request afterwards
	e := s.enter(rt.pattern, r)
	defer func() { e.rest = nil }() // rest keeps the connection in memory
	body, tooLarge := s.readBody(rt, e, r)
	rec := &recorder{ResponseWriter: w, service: s, entry: e}
	c := &call{Service: s, tables: &s.tables, route: rt, r: r, body: body, query: r.URL.Query(), entry: e}
	c.who = c.username()
	rec.who = c.who
	fault := s.nextFault(c)

	if fault.Late > 0 {
		s.serveLate(c, rec, fault, tooLarge)
		return
	}
	if !fault.wait(r.Context(), s.done) {
		rec.abort()
	}
	if fault.ResetBefore {
		rec.reset()
		return
	}
	if fault.Status != 0 && !fault.Executes {
		s.hold(rec, r, fault)
		s.send(rec, rt, s.faultAnswer(fault, r), fault.CutBody)
		return
	}
	if h := s.replacement(rt.pattern); h != nil {
		if !rt.upload {
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		h.ServeHTTP(rec, r)
		rec.finish(http.StatusOK)
		return
	}

	a, err := s.run(c, tooLarge)
	for _, event := range c.events {
		s.notify(event)
	}
	s.hold(rec, r, fault)
	if fault.ResetAfter {
		rec.reset()
		return
	}
	switch {
	case fault.Status != 0:
		a = s.faultAnswer(fault, r)
	case err != nil:
		a = s.refusal(err, r)
	default:
		s.reshape(c, a)
		if fault.Patch != nil {
			fault.Patch.apply(a)
		}
	}
	s.send(rec, rt, a, fault.CutBody)
}

// hold delays a response as long as the fault says.
func (s *Service) hold(rec *recorder, r *http.Request, fault Fault) {
	if fault.AnswerDelay > 0 && !pause(r.Context(), fault.AnswerDelay, s.done) {
		rec.abort()
	}
}

// run calls the handler and encodes its response, both under the lock. If the route ran, run
// counts it.
func (s *Service) run(c *call, tooLarge bool) (*answer, error) {
	if tooLarge {
		return nil, problemOf(http.StatusRequestEntityTooLarge, "RequestTooLarge", "The request is too large.")
	}
	if err := c.admit(); err != nil {
		return nil, err
	}
	if c.route.parse != nil {
		if err := c.route.parse(c); err != nil {
			return nil, err
		}
	}
	if !c.route.upload { // uploads lock by themselves, so that they read the file without the lock
		s.mu.Lock()
		defer s.mu.Unlock()
		defer s.onTimeOf(c.who)()
		c.tables = s.seenBy(c)
	}
	result, err := c.route.handle(c)
	if c.route.upload {
		s.mu.Lock()
		defer s.mu.Unlock()
	}
	c.entry.about = s.related(c.concerns) // of rejected requests, too
	if err == nil {
		err = c.failed.err()
	}
	if err != nil {
		return nil, err
	}
	s.count(c)
	return jsonAnswer(result), nil
}

func (s *Service) refusal(err error, r *http.Request) *answer {
	var p *problem
	if !errors.As(err, &p) {
		p = problemOf(http.StatusInternalServerError, "InternalError", err.Error())
	}
	return s.problemAnswer(*p, r.URL.Path)
}

// send writes a response, completely or cut. A cut response announces more bytes than it has,
// and then the connection ends.
func (s *Service) send(rec *recorder, rt *route, a *answer, cut int) {
	if rt.upload && !rec.entry.oversize && !rec.entry.expects {
		// A sender in the middle of a long body may not read an early response, so read the rest
		// first.
		_, _ = io.Copy(io.Discard, rec.entry.rest)
	}
	h := rec.Header()
	maps.Copy(h, a.header)
	h.Set("Date", s.nowOf(rec.who).Format(http.TimeFormat))
	body := a.body
	if cut != 0 {
		n := min(max(cut, 0), len(body))
		h.Set("Content-Length", strconv.Itoa(max(len(body), n+1)))
		body = body[:n]
	} else if a.status != http.StatusNoContent {
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	s.mu.Lock()
	s.keepAnswer(rec.entry, body)
	s.mu.Unlock()
	rec.WriteHeader(a.status)
	_, _ = rec.ResponseWriter.Write(body)
	if cut != 0 {
		_ = http.NewResponseController(rec).Flush()
		rec.abort()
	}
}

// readBody reads the whole body of an ordinary request, so that the request log has it in any
// case. The handlers of uploads read their body themselves.
func (s *Service) readBody(rt *route, e *entry, r *http.Request) (body []byte, tooLarge bool) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	limited := http.MaxBytesReader(nil, r.Body, hostLimit)
	e.rest = limited
	e.expects = strings.EqualFold(r.Header.Get("Expect"), "100-continue")
	if r.ContentLength > hostLimit {
		e.oversize = true
		return nil, true
	}
	if rt.upload {
		e.rest = &uploadReader{Reader: limited, service: s, entry: e}
		r.Body = io.NopCloser(e.rest)
		return nil, false
	}
	body, err := io.ReadAll(limited)
	s.mu.Lock()
	e.keep(body)
	s.mu.Unlock()
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, true
	}
	if err != nil {
		panic(http.ErrAbortHandler) // the caller has gone
	}
	return body, false
}

// serveNotFound answers requests without a route, including requests with a wrong method.
func (s *Service) serveNotFound(w http.ResponseWriter, r *http.Request) {
	rec := &recorder{ResponseWriter: w, service: s, entry: s.enter("", r)}
	a := s.problemAnswer(*problemOf(http.StatusNotFound, "NotFound", "There is no such route."), r.URL.Path)
	s.send(rec, &route{}, a, 0)
}
