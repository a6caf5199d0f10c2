package lending

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"time"

	"github.com/lendingapi/lending-go/internal/transport"
)

// The largest answers that are read, decompressed.
const (
	maxAnswer  = 64 << 20
	maxProblem = 1 << 20
)

// attempt makes the attempts of one call: one, or more for a read. Its error says that
// no answer was received, or not all of a success.
func (x *exchange) attempt(ctx context.Context, token Token, body []byte) error {
	x.caller = ctx
	if x.key != nil && x.request.effect == Mutation {
		ctx, x.deadline = transport.WithDeadline(ctx)
	}
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
	if x.deadline.IsOver() { // also where the timer of the context is late
		return nil, context.DeadlineExceeded
	}
	x.attempts++
	start := time.Now()
	through := x.client.settings().http.Transport
	if x.request.effect == Mutation {
		hr = guard(hr)
	}
	if x.request.effect == Mutation || x.isCheck() {
		through = x.client.settings().fresh
	}
	resp, err := through.RoundTrip(hr)
	switch {
	case err != nil:
		resp = nil
	case resp == nil:
		err = errNoAnswer
	default:
		err = x.read(resp)
		x.parsed = parseAnswer(&x.answer)
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
		x.deadline.Got()
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

// observe tells the observers of an attempt that has ended.
func (x *exchange) observe(start time.Time, resp *http.Response) {
	if len(x.client.settings().observers) == 0 {
		return
	}
	a := Attempt{
		Method: x.request.method, Route: x.request.path, Effect: x.request.effect, Number: x.attempts,
		Start: start, Duration: time.Since(start), Outcome: x.outcome(), Err: hide(x.err), Idempotency: x.call.Idempotency,
	}
	if resp != nil {
		a.StatusCode = resp.StatusCode
	}
	for _, observe := range x.client.settings().observers {
		observe(x.caller, a)
	}
}
