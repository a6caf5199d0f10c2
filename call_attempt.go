package lending

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lendingapi/lending-go/internal/neterr"
	"github.com/lendingapi/lending-go/internal/redact"
	"github.com/lendingapi/lending-go/internal/transport"
)

// settings are what a call needs to know of its client.
type settings struct {
	base      url.URL
	userAgent []string // the value of the header
	http      http.Client
	fresh     *transport.Fresh // sends mutations and checks; nil for a caller's transport
	foreign   bool             // the http.Client is the caller's, and may use HTTP/2 and add headers
	tokens    TokenSource
	headers   []func(context.Context, http.Header)
	retries   uint8 // the largest number of attempts of a read after the first
	logger    *slog.Logger

	missing map[string]int // of WithMissing: the status by path template

	callObservers, attemptObservers []observer

	account string // [MutationCall.Account]
}

// exchange holds the attempts of a call. It is also the RoundTripper below the call's http.Client:
// it sees every attempt, and nothing above can undo its work.
type exchange struct {
	settings    *settings
	request     request
	key         *idempotencyKey // of the mutation; nil for a call without a key
	idempotency string          // see [Call].Idempotency
	address     url.URL         // of the request
	payload     []byte          // the request record as JSON; nil for a route without one, and for an upload

	caller context.Context //nolint:containedctx // for the observers; attempts have a traced context
	http   http.Client     // its transport is the exchange

	attempts int
	sends    sends
	answer   answer
	err      error // of the last attempt

	reply http.Response // the part of answer for the http.Client
	body  io.LimitedReader
}

// sends counts what the transport does with the request in all attempts. The hooks may run after
// an attempt has returned.
type sends struct {
	own      transport.Send     // in the allocation of the call, since a mutation has a single attempt
	mutation *transport.Send    // own; nil for a read, and for a caller's transport
	use      transport.Use      // of the last connection of a read
	stop     context.CancelFunc // ends the call

	asked  atomic.Bool // a caller's transport asked net/http for a connection
	conns  atomic.Int32
	reused atomic.Bool     // a connection had served another request
	marks  [3]atomic.Int32 // the number of times the transport wrote each mark of the request
	excess atomic.Bool     // the transport sent too often
}

// once makes an attempt. The http.Client is needed only for its Timeout, because the client
// wants neither cookies nor redirects.
func (x *exchange) once(ctx context.Context, token Token) (*http.Response, error) {
	hr := x.newRequest(ctx, token)
	if x.http.Timeout > 0 {
		return x.http.Do(hr)
	}
	return x.RoundTrip(hr)
}

// mediaJSON is the value of a header. Requests share it, because nobody changes headers in place.
var mediaJSON = []string{"application/json"}

// newRequest makes the request of an attempt.
func (x *exchange) newRequest(ctx context.Context, token Token) *http.Request {
	own := &struct { // in one allocation
		address       url.URL // a caller's transport may change it
		authorization [1]string
	}{address: x.address}
	hr := (&http.Request{
		Method: x.request.method, URL: &own.address, Host: own.address.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Accept": mediaJSON, "User-Agent": x.settings.userAgent},
	}).WithContext(ctx)
	if !token.Value.IsZero() {
		own.authorization[0] = "Bearer " + token.Value.Reveal()
		hr.Header["Authorization"] = own.authorization[:]
	}
	if x.payload != nil {
		hr.Header["Content-Type"] = mediaJSON
		hr.Body, hr.ContentLength = io.NopCloser(bytes.NewReader(x.payload)), int64(len(x.payload))
	}
	if u, ok := x.request.body.(streamed); ok {
		hr.Header["Content-Type"] = mediaJSON
		u.bind(ctx, hr)
	}
	return hr
}

// RoundTrip makes an attempt and reads the whole response, so that a cut 2xx response counts as
// a failed attempt. Any other status counts even if its body is cut.
func (x *exchange) RoundTrip(hr *http.Request) (*http.Response, error) {
	ctx := hr.Context()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	a := attempt{Call: x.attemptCall(), ctx: x.caller}
	x.err = errPanicked // unless send returns
	defer func() { x.attempted(&a) }()
	if observers := x.settings.attemptObservers; len(observers) > 0 {
		a.ctx = begin(a.ctx, observers, a.Call, &a.ends)
		ctx = attemptContext{ctx, a.ctx}
	}
	a.StatusCode, a.Protocol, x.err = x.send(ctx, hr)
	if x.err != nil && a.StatusCode < 300 {
		return nil, x.err
	}
	// Only the status goes up: there is no Location to follow or to quote.
	x.reply = http.Response{StatusCode: a.StatusCode, Body: http.NoBody}
	return &x.reply, nil
}

// attempt is an attempt of a call, as observers see it.
type attempt struct {
	Call

	ctx  context.Context //nolint:containedctx // of the observers
	ends []func(Call)
}

// attemptCall returns the next attempt as observers see it at the start.
func (x *exchange) attemptCall() Call {
	return Call{
		Method: x.request.method, Route: x.request.path, Effect: x.request.effect,
		Start: time.Now(), Attempts: x.attempts + 1, Idempotency: x.idempotency,
	}
}

// attempted tells the logger and the observers of the end of an attempt.
func (x *exchange) attempted(a *attempt) {
	logger := x.settings.logger
	if logger == nil && len(a.ends) == 0 {
		return
	}
	a.Duration, a.Outcome, a.Err = time.Since(a.Start), x.outcome(), hide(x.err)
	defer end(a.ends, a.Call)
	if logger != nil {
		a.log(a.ctx, logger)
	}
}

// send sends hr once and reads the response. Without a response the status is 0.
func (x *exchange) send(ctx context.Context, hr *http.Request) (status int, protocol string, err error) {
	header, err := withHeaders(ctx, hr.Header, x.settings.headers, &x.request)
	if err == nil {
		err = x.request.checkHead(&x.address, header)
	}
	if err != nil {
		if argument, ok := err.(*ArgumentError); ok { //nolint:errorlint // wraps nothing
			argument.ofClient = true
		}
		return 0, "", err
	}
	switch {
	case x.request.effect != Mutation:
	case x.settings.foreign:
		if _, err = transport.Permit(ctx); err == nil && x.isOver() {
			err = context.DeadlineExceeded
		}
		if err != nil {
			return 0, "", err
		}
	default:
		x.sends.mutation = x.sends.own.Start(ctx)
		defer x.sends.mutation.End()
		if ctx, err = x.sends.mutation, x.sends.mutation.Err(); err != nil {
			return 0, "", err
		}
	}
	x.attempts++
	hr = hr.WithContext(httptrace.WithClientTrace(ctx, x.trace(hr)))
	hr.Header = header
	if x.request.effect == Mutation {
		hr.GetBody = nil
	}
	if x.request.effect == Mutation && x.settings.foreign {
		guard(hr)
	}
	if u, ok := x.request.body.(streamed); ok {
		defer u.settle()
	}
	resp, err := x.transport().RoundTrip(hr)
	if x.sends.mutation != nil && err != nil {
		err = cmp.Or(x.sends.mutation.Refused(), err)
	}
	switch {
	case err != nil:
		return 0, "", x.ofTransport(err)
	case resp == nil:
		return 0, "", errNoAnswer
	}
	return resp.StatusCode, resp.Proto, x.read(resp)
}

// errFinal marks an error of a caller's transport that another attempt would meet too: the transport asked
// for no connection, and the error is none of the network. In a test the usual cause is a missing stub.
var errFinal = errors.New("final")

// ofTransport returns err, which the transport returned. An unknown error of a caller's transport shows its
// common words: see [redact.Plain].
func (x *exchange) ofTransport(err error) error {
	text := redact.Describe(err)
	switch {
	case redact.IsKnown(err):
		return err
	case !x.settings.foreign:
		return hidden("the connection failed: "+text+"; check the gateway", err)
	}
	text = "the http.Client failed: " + cmp.Or(redact.Plain(err), text)
	if !x.sends.asked.Load() {
		err = errors.Join(errFinal, err)
	}
	return hidden(text, err)
}

// isOver asks the clock, because the timer of the context may be late.
func (x *exchange) isOver() bool {
	at, ok := x.caller.Deadline()
	return ok && !time.Now().Before(at)
}

// transport returns the client's own transport for fresh connections if the request may share none.
func (x *exchange) transport() http.RoundTripper {
	s := x.settings
	if s.fresh != nil && (x.request.effect == Mutation || x.idempotency == idempotencyCheck || s.fresh.SpeaksHTTP2()) {
		return s.fresh
	}
	return s.http.Transport
}

// guard makes a caller's http.Transport send a GET once. If a connection breaks after the service
// has read a request, net/http resends a request without a body, but never a request with a partly
// read body. So a GET gets an empty body, which appears on the wire over HTTP/2 alone. The client's
// own transport needs none: it sends nothing on a used connection of HTTP/1.1, and resends nothing over HTTP/2.
//
// A POST without a body has no guard: net/http would send an empty body chunked, which services
// refuse without a content type. Over HTTP/1.1 net/http does not resend the POST.
func guard(hr *http.Request) {
	if hr.Body == nil && hr.Method == http.MethodGet {
		hr.Body = io.NopCloser(emptyBody{})
	}
}

// emptyBody is an empty body that net/http cannot recognize as empty.
type emptyBody struct{}

func (emptyBody) Read([]byte) (int, error) { return 0, io.EOF }

// trace returns the hooks that count the sends of the transport. A read has room for stale
// connections: net/http resends a read once for each stale HTTP/1 connection, and without a bound if
// the peer keeps refusing HTTP/2 streams or connections.
func (x *exchange) trace(hr *http.Request) *httptrace.ClientTrace {
	most := int32(1)
	if x.request.effect == Read {
		most = 2 * (1 + int32(x.settings.retries))
	}
	hooks := &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) { x.sends.gotConn(got, most) }}
	if x.settings.foreign {
		x.sends.traceForeign(hooks, x.settings.base.Host, x.settings.userAgent[0], hr.Header.Get("Authorization"))
	} else {
		x.sends.traceOwn(hooks, hr.Close)
	}
	return hooks
}

// traceOwn adds the hooks for a transport of the client, which sends no other requests.
func (s *sends) traceOwn(hooks *httptrace.ClientTrace, isAlone bool) {
	if s.mutation == nil || isAlone {
		hooks.WroteHeaders = func() { s.wrote(0) }
		hooks.PutIdleConn = func(error) { s.use.End() }
		return
	}
	hooks.WroteHeaderField = func(name string, _ []string) { // over HTTP/2 before the head is written
		if isHostField(name) {
			s.wrote(0)
			s.mutation.Begin()
		}
	}
	hooks.WroteRequest = func(httptrace.WroteRequestInfo) { s.mutation.Wrote() }
}

// traceForeign adds the hooks for a transport of the caller, which may repeat requests below every
// other guard. Its requests to others do not count, because they lack the marks of the request:
// Host, User-Agent and Authorization. A transport may replace some of the marks.
func (s *sends) traceForeign(hooks *httptrace.ClientTrace, host, userAgent, authorization string) {
	hooks.GetConn = func(string) { s.asked.Store(true) }
	hooks.WroteHeaderField = func(name string, value []string) {
		text := strings.Join(value, "")
		switch {
		case isHostField(name) && strings.EqualFold(text, host):
			s.wrote(0)
		case strings.EqualFold(name, "User-Agent") && text == userAgent:
			s.wrote(1)
		case strings.EqualFold(name, "Authorization") && text == authorization && text != "":
			s.wrote(2)
		}
	}
}

// gotConn counts a connection. It ends the call when the transport gets a connection for more than
// most sends.
//
// The end of the context stops HTTP/2 before it writes, but not HTTP/1: there gotConn closes the
// connection under the request, against the advice of httptrace.
func (s *sends) gotConn(got httptrace.GotConnInfo, most int32) {
	s.conns.Add(1)
	s.reused.Store(s.reused.Load() || got.Reused)
	s.use.Begin(got.Conn)
	if s.mutation != nil {
		s.mutation.Got(got.Conn)
	}
	if s.excess.Load() || s.written() >= most {
		s.excess.Store(true)
		s.stop()
		if got.Conn != nil && !transport.IsShared(got.Conn) {
			_ = got.Conn.Close()
		}
	}
}

// wrote counts a mark of the request. After gotConn has ended the call, net/http may still format a
// head, for the connection that gotConn has closed.
func (s *sends) wrote(mark int) {
	if !s.excess.Load() {
		s.marks[mark].Add(1)
	}
}

// written returns the number of times the transport wrote the head of the request.
func (s *sends) written() int32 {
	return max(s.marks[0].Load(), s.marks[1].Load(), s.marks[2].Load())
}

// isHostField reports whether name is the host field of HTTP/1 or HTTP/2.
func isHostField(name string) bool { return name == "Host" || name == ":authority" }

// maxProblem is the limit of a response without success, decompressed: see maxAnswer.
const maxProblem = 1 << 20

// read reads the response into x, as far as possible.
func (x *exchange) read(resp *http.Response) error {
	x.answer = answer{Response: Response{StatusCode: resp.StatusCode, Header: resp.Header}, protocol: resp.Proto}
	if resp.Body == nil {
		return nil
	}
	defer resp.Body.Close()
	limit := int64(maxAnswer)
	switch {
	case resp.StatusCode == http.StatusSwitchingProtocols:
		return nil // the body is the connection and never ends
	case resp.StatusCode >= 300:
		limit = maxProblem
	}
	var body bytes.Buffer
	if resp.ContentLength > 0 { // a claim, so the buffer has a bound
		body.Grow(int(min(resp.ContentLength, maxProblem)) + bytes.MinRead)
	}
	x.body = io.LimitedReader{R: resp.Body, N: limit + 1}
	_, err := body.ReadFrom(&x.body)
	if err == nil && int64(body.Len()) > limit {
		err = ErrTooLarge
		body.Truncate(int(limit))
	}
	x.answer.Body = body.Bytes()
	return err
}

// outcome derives the outcome from all attempts, never from the last error: "connection refused"
// can follow an executed request.
func (x *exchange) outcome() Outcome {
	status := x.answer.StatusCode
	switch {
	case status == 0 && !x.reached():
		return OutcomeNotSent
	case status == 0, x.request.effect == Mutation && x.sends.written() > 1 && status >= 300:
		return OutcomeUnknown
	case isSuccess(status):
		if x.request.proof.doubt(&x.answer) != nil {
			return OutcomeUnknown
		}
		return OutcomeDone
	case (status == http.StatusRequestTimeout || status >= 500) && x.isPart():
		return OutcomeNotSent
	case status == http.StatusRequestTimeout, status < 400, status >= 500:
		return OutcomeUnknown
	case status == http.StatusBadRequest && x.request.proof.records > 0 && len(parseProblem(&x.answer.Response).fieldErrors()) == 0:
		return OutcomeUnknown // the interface does not say whether a batch is all or nothing
	}
	return OutcomeRejected
}

// reached reports whether any attempt may have reached the service. Any attempt of a read
// counts.
func (x *exchange) reached() bool {
	if x.attempts == 0 || x.isPart() {
		return false
	}
	switch {
	case x.request.effect == Read:
		return true
	case x.sends.mutation == nil: // a caller's transport may fire no trace
		return x.sends.conns.Load() > 0 || !neterr.NeverLeft(x.err)
	}
	refused := x.sends.conns.Load() == 1 && !x.sends.reused.Load() && neterr.IsRefusal(x.err)
	return x.sends.mutation.Left() && !refused && !neterr.IsUnprocessed(x.err)
}

// isPart reports whether only a part of a document has left: the service accepts no part.
func (x *exchange) isPart() bool {
	u, ok := x.request.body.(streamed)
	return ok && !u.isWhole()
}

// sent returns the number of sends, by this package or by the transport.
func (x *exchange) sent() int { return max(x.attempts, int(x.sends.written())) }
