package lendingtest

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lendingapi/lending-go/internal/assumption"
	"github.com/lendingapi/lending-go/lendingtest/internal/clock"
	"github.com/lendingapi/lending-go/lendingtest/internal/rules"
)

// hostLimit is the size of a body that an ASP.NET host rejects before the request reaches a
// controller.
const hostLimit = 30_000_000

// front takes requests to the rules: it has everything between the socket and the state.
type front struct {
	ledger
	faultPlan
	records
	learnt
	lateRuns lateRuns

	cfg  config
	mux  *http.ServeMux
	done chan struct{} // closed by Close
}

func (f *front) serveRoutes() {
	f.mux = http.NewServeMux()
	for _, rt := range rules.Routes() {
		f.mux.HandleFunc(rt.Pattern, func(w http.ResponseWriter, r *http.Request) { f.serveRoute(&rt, w, r) })
	}
	f.mux.HandleFunc("/", f.serveNotFound) // also known paths with another method: the interface answers with 404
}

// ServeHTTP answers a request.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rest, ok := strings.CutPrefix(r.URL.EscapedPath(), f.cfg.basePath)
	switch status := tooLong(r); {
	case status != 0:
		f.outside(w, r).send(&rules.Answer{Status: status, Header: http.Header{"Connection": {"close"}}})
	case !ok, !strings.HasPrefix(rest, "/"), path.Clean(rest) != rest: // ServeMux would redirect; this service never redirects
		f.serveNotFound(w, r)
	default:
		http.StripPrefix(f.cfg.basePath, f.mux).ServeHTTP(w, r)
	}
}

// tooLong returns the status for a head above the limits of the host, or 0.
func tooLong(r *http.Request) int {
	head := 0
	for name, values := range r.Header {
		for _, value := range values {
			head += len(name) + len(": ") + len(value) + len("\r\n")
		}
	}
	switch {
	case len(r.Method+" "+r.RequestURI+" HTTP/1.1\r\n") > 8192:
		return http.StatusRequestURITooLong
	case head > 32768:
		return http.StatusRequestHeaderFieldsTooLarge
	}
	return 0
}

// exchange is a request on its way through the stages. As a ResponseWriter it completes the row of the request in the
// log before the first byte of the response.
type exchange struct {
	http.ResponseWriter
	*front
	entry    *entry
	call     *rules.Call
	fault    Fault
	tooLarge bool
	stranger bool // a host answers before it reads the body
}

// serveRoute takes one request through the stages of the service: arrival, fault, replacement,
// host, sign-in, handler.
//
//nolint:funlen // one paragraph for each stage
func (f *front) serveRoute(rt *rules.Route, w http.ResponseWriter, r *http.Request) {
	if r.Method != rt.Method() { // ServeMux also routes HEAD to GET routes, and some of those change state
		f.serveNotFound(w, r)
		return
	}
	f.clock.CatchUp()
	e := f.enter(rt.Pattern, r)
	call := &rules.Call{Route: rt, Request: r, HTTPHost: f.cfg.mayReceiveHTTP, HostZone: f.cfg.hostZone, Learned: f.known}
	x := &exchange{ResponseWriter: w, front: f, entry: e, call: call}
	if x.stranger = !call.Admitted(f.book); x.stranger {
		_ = http.NewResponseController(w).EnableFullDuplex() // net/http would read a part of the body first
	} else {
		x.call.Body, x.tooLarge = f.readBody(e, r)
	}
	if after := f.limited(f.clock.Now()); after > 0 {
		limit := Fault{Status: http.StatusTooManyRequests, RetryAfter: (after + time.Second - 1).Truncate(time.Second)}
		x.send(limit.answer(f.book, r.URL.Path))
		return
	}
	x.fault = f.next(rt.Pattern)
	x.late()
	f.change(func() { e.Fault = x.fault.text() })
	if x.fault.Late > 0 {
		x.serveLate()
		return
	}
	x.reach()
	if x.fault.ResetBefore {
		x.reset()
		return
	}
	if x.fault.Status != 0 && !x.fault.Executes {
		x.pause(x.fault.AnswerDelay)
		x.send(x.fault.answer(f.book, r.URL.Path))
		return
	}
	if h := f.replacement(rt.Pattern); h != nil {
		r = r.WithContext(r.Context()) // a copy, because net/http uses the Body of its own request afterwards
		if x.call.Body != nil {
			r.Body = io.NopCloser(bytes.NewReader(x.call.Body))
		}
		h.ServeHTTP(x, r)
		x.finish(http.StatusOK)
		return
	}
	a, refused := x.run()
	x.pause(x.fault.AnswerDelay)
	if x.fault.ResetAfter {
		x.reset()
		return
	}
	if x.fault.Status != 0 {
		x.send(x.fault.answer(f.book, r.URL.Path))
		return
	}
	x.respond(a, refused)
}

// reach makes a fault occur.
func (x *exchange) reach() {
	if x.fault.Reached != nil {
		x.fault.Reached()
	}
	x.pause(x.fault.DelayBefore)
}

// pause delays a request, and aborts it if its caller or the service ends first.
func (x *exchange) pause(d time.Duration) {
	if !clock.Pause(x.call.Request.Context(), d, x.done) {
		x.abort()
	}
}

// run calls the handler. If the route ran, run counts it.
func (x *exchange) run() (a *rules.Answer, refused *rules.Problem) {
	select {
	case <-x.done:
		return nil, rules.Refuse(http.StatusServiceUnavailable, "Closed", "The service is closed.")
	default:
	}
	if x.tooLarge {
		return nil, rules.Refuse(http.StatusRequestEntityTooLarge, "RequestTooLarge", "The request is too large.")
	}
	a, refused = x.call.Run(x.book, func() { x.ran(x.entry, x.call.About) })
	x.change(func() { x.entry.Username, x.entry.About = x.call.Username, x.call.About })
	return a, refused
}

// serveLate answers the caller and executes the mutation later.
func (x *exchange) serveLate() {
	r := x.call.Request
	// Before the response, because the caller may call Wait at once.
	start, refused := x.lateRuns.reserve(x.fault.Late, x.done, func() {
		_, _ = x.run() // no caller is left
		var e Request
		x.change(func() { e = x.entry.copy() })
		x.cfg.watch(e, true)
	})
	if refused != nil {
		x.fault.CutBody = 0
		x.send(rules.Refusal(x.book, refused, r.URL.Path))
		return
	}
	defer start() // also after an abort, which is a panic
	x.reach()
	if x.fault.Status == 0 {
		x.reset()
		return
	}
	x.send(x.fault.answer(x.book, r.URL.Path))
}

// send writes a response, completely or cut. A cut response announces more bytes than it has,
// and then the connection ends.
func (x *exchange) send(a *rules.Answer) {
	cut := x.fault.CutBody
	h := x.Header()
	maps.Copy(h, a.Header)
	now := x.clock.Now()
	if skew := x.duration(assumption.Clock); skew > 0 {
		now = now.Add(skew + 2*time.Second) // lending-probe ignores two seconds
	}
	h.Set("Date", now.Format(http.TimeFormat))
	body := a.Body
	if cut != 0 {
		n := min(max(cut, 0), len(body))
		h.Set("Content-Length", strconv.Itoa(max(len(body), n+1)))
		body = body[:n]
	} else if a.Status != http.StatusNoContent {
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	x.keepAnswer(x.entry, body)
	x.WriteHeader(a.Status)
	_, _ = x.ResponseWriter.Write(body)
	if cut != 0 {
		_ = http.NewResponseController(x).Flush()
		x.abort()
	}
	if r := x.call.Request; x.stranger && r.Body != nil && r.Header.Get("Expect") == "" { // a sender may read only after its body
		_ = http.NewResponseController(x).Flush()
		_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, hostLimit))
	}
}

// readBody reads the whole body, so that the request log has it, and because a sender in the middle of a long body may not
// read an early response.
func (f *front) readBody(e *entry, r *http.Request) (body []byte, tooLarge bool) {
	if r.Body == nil {
		return nil, false
	}
	limit, _ := f.sizeLimit()
	if r.ContentLength > limit {
		return nil, true
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, limit))
	f.change(func() { e.Body = slices.Clone(body[:min(len(body), bodyKept)]) })
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, true
	}
	if err != nil {
		panic(http.ErrAbortHandler) // the caller has gone
	}
	return body, false
}

// serveNotFound answers requests without a route, including requests with a wrong method.
func (f *front) serveNotFound(w http.ResponseWriter, r *http.Request) {
	f.outside(w, r).respond(nil, rules.Refuse(http.StatusNotFound, "NotFound", "There is no such route."))
}

// outside is a request that reaches no route.
func (f *front) outside(w http.ResponseWriter, r *http.Request) *exchange {
	return &exchange{ResponseWriter: w, front: f, entry: f.enter("", r), call: &rules.Call{Route: &rules.Route{}, Request: r}}
}

// Unwrap makes http.ResponseController work.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

func (x *exchange) WriteHeader(status int) {
	if status >= 200 { // there are no interim responses
		x.finish(status)
		x.ResponseWriter.WriteHeader(status)
	}
}

func (x *exchange) Write(b []byte) (int, error) {
	x.keepAnswer(x.entry, b)
	x.finish(http.StatusOK)
	return x.ResponseWriter.Write(b)
}

func (x *exchange) finish(status int) {
	if row, first := x.ledger.finish(x.entry, status); first {
		x.cfg.watch(row, false)
	}
}

// abort closes the connection after the bytes written so far.
func (x *exchange) abort() {
	x.finish(0)
	panic(http.ErrAbortHandler)
}

// reset makes the caller see "connection reset by peer". On HTTP/2 and without sockets, where
// the connection is not available, reset aborts instead.
func (x *exchange) reset() {
	x.finish(0)
	conn, _, err := http.NewResponseController(x).Hijack()
	if err != nil {
		x.abort()
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
