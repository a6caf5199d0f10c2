package lending

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lendingapi/lending-go/internal/neterr"
)

// The largest answers that are read, decompressed.
const (
	maxAnswer  = 64 << 20
	maxProblem = 1 << 20
)

// exchange is one call's conversation with the service. It is the RoundTripper below
// the http.Client of the call, so that it sees every attempt whoever makes it, and
// nothing above it can undo what it does.
type exchange struct {
	client  *carrier
	request request
	result  reflect.Type    // of the call
	caller  context.Context //nolint:containedctx // for the observers: the one of the attempts is traced
	http    http.Client     // has the exchange for its transport

	call Call         // as its observers are told of it
	ends []func(Call) // what they want to have called at its end

	key *idempotencyKey // of the mutation; nil for a call without one

	attempts int
	answer   Response      // the last there was
	said     said          // what it says
	reply    http.Response // what goes up of it
	body     io.LimitedReader
	err      error // what ended the last attempt, or cut its answer

	// How often the transport had a connection, and how often it wrote each mark of
	// our request to one; whether that was too often, and what ends the call then. The
	// hooks may run after the attempt has returned.
	gotConn atomic.Int32
	marks   [3]atomic.Int32
	excess  atomic.Bool
	stop    context.CancelFunc
}

// send makes the attempts of one call: one, or more for a read. Its error says that
// no answer was received, or not all of a success.
func (x *exchange) send(ctx context.Context, token Token, body []byte) error {
	x.caller = ctx
	x.http = x.client.settings().http
	x.http.Transport = x
	traced := x.trace(ctx, token)
	resp, err := x.once(x.client.bind(traced, &x.request, token, body))
	if x.request.effect == Read {
		if wait, again := x.again(traced, resp, err); again {
			closeBody(resp)
			resp, err = x.repeat(x.client.bind(traced, &x.request, token, body), wait) //nolint:bodyclose // ended closes it
		}
	}
	return x.ended(ctx, resp, err)
}

// once makes one attempt. Of what an http.Client adds to its transport, a call wants
// nothing but its Timeout: cookies and redirects are refused.
func (x *exchange) once(hr *http.Request) (*http.Response, error) {
	if x.http.Timeout > 0 {
		return x.http.Do(hr)
	}
	return x.RoundTrip(hr)
}

// ended returns the error of attempts that have ended with resp and err.
func (x *exchange) ended(ctx context.Context, resp *http.Response, err error) error {
	closeBody(resp)
	switch {
	case err == nil:
		return nil
	case errors.Is(context.Cause(ctx), errStalled):
		err = errStalled
	case x.excess.Load() && x.request.effect == Read:
		err = errSentOften
	case x.excess.Load():
		err = errSentAgain
	case ctx.Err() != nil:
		err = ctx.Err()
	}
	return x.failed(err)
}

// closeBody stops the timer of the http.Client's Timeout.
func closeBody(resp *http.Response) {
	if resp != nil {
		_ = resp.Body.Close()
	}
}

// RoundTrip makes one attempt and reads the whole answer, so that a success that is
// cut counts as a failure of the attempt. Any other status speaks for itself,
// however much of its body came.
func (x *exchange) RoundTrip(hr *http.Request) (*http.Response, error) {
	if err := hr.Context().Err(); err != nil {
		return nil, err
	}
	x.attempts++
	start := time.Now()
	transport := x.client.settings().http.Transport
	if x.request.effect == Mutation {
		hr = guard(hr)
	}
	if x.request.effect == Mutation || x.isCheck() {
		transport = x.client.settings().fresh
	}
	resp, err := transport.RoundTrip(hr)
	switch {
	case err != nil:
		resp = nil
	case resp == nil:
		err = errNoAnswer
	default:
		err = x.read(resp)
		x.said = hear(&x.answer)
	}
	x.err = err
	x.observe(start, resp)
	if err != nil && (resp == nil || resp.StatusCode < 300) {
		return nil, err
	}
	// Nothing but the status goes up: there is no Location to follow or to quote.
	x.reply = http.Response{StatusCode: resp.StatusCode, Body: http.NoBody}
	return &x.reply, nil
}

// guard makes sure that net/http sends the request once. It repeats by itself a
// request without a body, or with GetBody, when the connection breaks after the
// service has read it. It does not repeat one whose body it has begun to read:
// a GET gets an empty body, of which nothing shows on the wire.
//
// A POST without a body is left as it is: net/http does not repeat it, and an empty
// body would be sent chunked, which services refuse for want of a content type.
// Where a foreign transport changes that, [exchange.trace] stops it.
func guard(hr *http.Request) *http.Request {
	if hr.GetBody == nil && (hr.Body != nil || hr.Method != http.MethodGet) {
		return hr
	}
	guarded := hr.WithContext(hr.Context())
	guarded.GetBody = nil
	if guarded.Body == nil && guarded.Method == http.MethodGet {
		guarded.Body = io.NopCloser(emptyBody{})
	}
	return guarded
}

// emptyBody is a body that net/http cannot know to be empty.
type emptyBody struct{}

func (emptyBody) Read([]byte) (int, error) { return 0, io.EOF }

// maxSent bounds how often a read is sent: net/http repeats one by itself, without a
// bound if the peer goes on refusing the streams or the connections of HTTP/2, and once
// for each stale connection of HTTP/1. It leaves room for some of those.
const maxSent = 2 * (1 + maxRetries)

// trace counts what the transport does with the request, and ends the call when that has
// got a connection to send a mutation for the second time, or a read for more than maxSent
// times. The http.Client may be the caller's, whose transport may repeat requests by
// itself, with a body of its own, below every other guard.
//
// The end of the context stops HTTP/2 before it writes, but not HTTP/1, where the
// connection is closed under the request, against the advice of httptrace. What a
// caller's transport sends to others on its own account does not count: it bears none of
// our marks, of which a transport may replace some.
func (x *exchange) trace(ctx context.Context, token Token) context.Context {
	most := int32(1)
	if x.request.effect == Read {
		most = maxSent
	}
	hooks := &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		x.gotConn.Add(1)
		if x.written() >= most {
			x.excess.Store(true)
			x.stop()
			if c, ok := got.Conn.(*tls.Conn); got.Conn != nil && (!ok || c.ConnectionState().NegotiatedProtocol != "h2") {
				_ = got.Conn.Close()
			}
		}
	}}
	if !x.client.settings().foreign {
		hooks.WroteHeaders = func() { x.marks[0].Add(1) }
		return httptrace.WithClientTrace(ctx, hooks)
	}
	hooks.WroteHeaderField = func(name string, value []string) {
		text := strings.Join(value, "")
		bearer, isBearer := strings.CutPrefix(text, "Bearer ")
		switch {
		case isHostField(name) && strings.EqualFold(text, x.client.settings().base.Host):
			x.marks[0].Add(1)
		case strings.EqualFold(name, "User-Agent") && text == x.client.settings().userAgent[0]:
			x.marks[1].Add(1)
		case strings.EqualFold(name, "Authorization") && isBearer && bearer == token.Value.Reveal():
			x.marks[2].Add(1)
		}
	}
	return httptrace.WithClientTrace(ctx, hooks)
}

// isHostField reports whether name is that of the host in HTTP/1 or HTTP/2.
func isHostField(name string) bool { return name == "Host" || name == ":authority" }

// written returns how often the transport wrote the head of our request.
func (x *exchange) written() int32 {
	return max(x.marks[0].Load(), x.marks[1].Load(), x.marks[2].Load())
}

// sent returns how often the request was sent, or tried to: by us, or by the transport.
func (x *exchange) sent() int { return max(x.attempts, int(x.written())) }

// read reads the answer into x, as far as it comes.
func (x *exchange) read(resp *http.Response) error {
	x.answer = Response{StatusCode: resp.StatusCode, Header: resp.Header}
	if resp.Body == nil {
		return nil
	}
	defer resp.Body.Close()
	limit := int64(maxAnswer)
	switch {
	case resp.StatusCode == http.StatusSwitchingProtocols:
		return nil // the body is the connection, which never ends
	case resp.StatusCode >= 300:
		limit = maxProblem
	}
	var body bytes.Buffer
	if resp.ContentLength > 0 { // which is a claim
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

// outcome says what the attempts have done, from what was seen of them. It never
// asks the last error: after a repetition "connection refused" can follow a
// request that was executed.
func (x *exchange) outcome() Outcome {
	status := x.answer.StatusCode
	switch {
	case status == 0 && !x.reached():
		return OutcomeNotSent
	case status == 0, x.request.effect == Mutation && x.written() > 1 && status >= 300:
		return OutcomeUnknown
	case status >= 200 && status < 300:
		if x.doubt() != nil {
			return OutcomeUnknown
		}
		return OutcomeDone
	case status == http.StatusRequestTimeout, status < 400, status >= 500:
		return OutcomeUnknown
	case status == http.StatusBadRequest && x.request.batch > 0 && len(x.problem().fieldErrors()) == 0:
		return OutcomeUnknown // whether a batch is all or nothing is not published
	}
	return OutcomeRejected
}

// reached reports whether any attempt may have reached the service. Of a read, which has
// no effect, it is not worth to say more than that it was tried.
func (x *exchange) reached() bool {
	if x.attempts == 0 {
		return false
	}
	if u, ok := x.request.body.(*upload); ok && !u.complete.Load() {
		return false // a part of a document is no command
	}
	if x.request.effect == Read || x.gotConn.Load() > 0 {
		return true
	}
	return x.client.settings().foreign && !neterr.NeverLeft(x.err) // which may have ways out that fire no trace
}

func (x *exchange) problem() *ProblemDetails { return parseProblem(x.answer.Body) }

// notSent returns the error of a call that did not get a token.
func (x *exchange) notSent(cause error) error {
	e := x.failed(cause)
	if paused, ok := errors.AsType[*pausedError](cause); ok {
		e.RetryAfter = max(e.RetryAfter, time.Until(paused.until))
	} else if signIn, ok := errors.AsType[*Error](cause); ok {
		e.RetryAfter = max(e.RetryAfter, signIn.RetryAfter)
	}
	return e
}

// failure returns the error of an answer that is not a success, nil if it is one.
func (x *exchange) failure() error {
	if status := x.answer.StatusCode; status < 200 || status >= 300 {
		cause := x.err
		if cause == nil && len(x.answer.Body) > 0 && mediaType(x.answer.Header) == "text/html" {
			cause = errHTML
		}
		return x.failed(cause)
	}
	return x.lost(x.doubt())
}

// lost returns the error of a success that is in doubt or does not decode, nil for nil.
func (x *exchange) lost(cause error) error {
	if cause == nil {
		return nil
	}
	return x.failed(cause)
}

// failed returns the error of the call as it stands.
func (x *exchange) failed(cause error) *Error {
	e := &Error{
		Method:     x.request.method,
		Route:      x.request.path,
		Effect:     x.request.effect,
		StatusCode: x.answer.StatusCode,
		Outcome:    x.outcome(),
		RetryAfter: retryAfter(x.answer.Header),
		Attempts:   x.sent(),
		cause:      hide(cause),
	}
	if answer := x.answer; answer.StatusCode != 0 {
		e.response = func() *Response { return &answer }
	}
	if e.StatusCode >= 300 || x.said.failed == problemRecord {
		e.Problem = x.problem()
	}
	if e.Effect == Read && e.Outcome == OutcomeDone { // a read that failed has done nothing
		e.Outcome = OutcomeUnknown
	}
	if e.Effect == Mutation {
		e.CheckWith = x.request.checkWith
	}
	return e
}
