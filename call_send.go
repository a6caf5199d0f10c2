package lending

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/lendingapi/lending-go/internal/backoff"
	"github.com/lendingapi/lending-go/internal/neterr"
	"github.com/lendingapi/lending-go/internal/redact"
	"github.com/lendingapi/lending-go/internal/transport"
)

// maxProblem is the limit of a response without success, decompressed: see maxAnswer.
const maxProblem = 1 << 20

// deliver sends the request with a token. If the service refuses the token, deliver sends a read
// once more with a new token, and again if the new token comes from a [TokenStore] and is
// refused too. deliver returns an error if there is no response. This is the only loop around
// attempts besides [exchange.repeat], which is for reads.
func (x *exchange) deliver(ctx context.Context) error {
	for sent := 1; ; sent++ {
		token, err := x.client.token(ctx, &x.request)
		if err != nil {
			return x.notSent(err)
		}
		if err := x.attempt(ctx, token); err != nil {
			return err
		}
		refused := x.answer.StatusCode == http.StatusUnauthorized && x.client.drop(token)
		again := sent == 1 || sent == 2 && token.adopted
		if !refused || x.request.effect == Mutation || !again {
			return nil
		}
	}
}

// token returns the token for r, the zero Token for an anonymous route.
func (c *carrier) token(ctx context.Context, r *request) (Token, error) {
	switch {
	case r.anonymous || !r.token.Value.IsZero():
		return r.token, nil
	case c.settings().tokens == nil:
		return Token{}, errNoTokens
	}
	token, err := c.settings().tokens.Token(ctx)
	if err != nil && !redact.IsKnown(err) {
		err = hidden("the source of tokens failed; check the TokenSource", err)
	}
	if err == nil && !isHeaderSafe(token.Value.Reveal()) {
		err = errBadToken
	}
	return token, err
}

// drop tells the token source that the service refused token, and reports whether the source can
// get another.
func (c *carrier) drop(token Token) bool {
	source, ok := c.settings().tokens.(interface{ Invalidate(Token) })
	if !ok || token.Value.IsZero() {
		return false
	}
	source.Invalidate(token)
	return true
}

// attempt sends a mutation once, and a read up to five times. It returns an error without a
// response, and for a cut 2xx response.
func (x *exchange) attempt(ctx context.Context, token Token) error {
	x.caller = ctx
	defer func() { x.deadline.End() }()
	x.http = x.client.settings().http
	x.http.Transport = x
	resp, err := x.once(x.newRequest(ctx, token))
	if x.request.effect == Read {
		if wait, again := x.again(ctx, resp, err); again {
			closeBody(resp)
			resp, err = x.repeat(x.newRequest(ctx, token), wait) //nolint:bodyclose // ended closes it
		}
	}
	return x.ended(ctx, resp, err)
}

// mediaJSON is the value of a header. Requests share it, because nobody changes headers in place.
var mediaJSON = []string{"application/json"}

// newRequest makes the request of an attempt.
func (x *exchange) newRequest(ctx context.Context, token Token) *http.Request {
	address := &x.address
	if x.client.settings().foreign {
		own := x.address // the transport may change it
		address = &own
	}
	hr := (&http.Request{
		Method: x.request.method, URL: address, Host: address.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Accept": mediaJSON, "User-Agent": x.client.settings().userAgent},
	}).WithContext(ctx)
	if !token.Value.IsZero() {
		hr.Header["Authorization"] = []string{"Bearer " + token.Value.Reveal()}
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

// once makes an attempt. The http.Client is needed only for its Timeout, because the client
// wants neither cookies nor redirects.
func (x *exchange) once(hr *http.Request) (*http.Response, error) {
	if x.http.Timeout > 0 {
		return x.http.Do(hr)
	}
	return x.RoundTrip(hr)
}

// ended returns the error of attempts that ended with resp and err.
func (x *exchange) ended(ctx context.Context, resp *http.Response, err error) error {
	closeBody(resp)
	argument, refused := x.err.(*ArgumentError) //nolint:errorlint // of WithHeader, which wraps nothing
	switch {
	case err == nil:
		return nil
	case refused && x.attempts == 0:
		return argument
	case errors.Is(context.Cause(ctx), errStalled):
		err = errStalled
	case x.excess.Load() && x.request.effect == Read:
		err = errSentOften
	case x.excess.Load() && x.client.settings().foreign:
		err = errSentAgain
	case x.excess.Load():
		err = errEnded
	case x.isOver():
		err = context.DeadlineExceeded
	case ctx.Err() != nil:
		err = ctx.Err()
	case neterr.IsTLS(err) && !x.client.settings().foreign:
		err = hidden(redact.Describe(err)+"; check WithTLS", err)
	}
	return x.failed(err)
}

// isOver asks the clock, because the timer of the context may be late.
func (x *exchange) isOver() bool {
	at, ok := x.caller.Deadline()
	return ok && !time.Now().Before(at)
}

var errStalled = hidden("no progress for "+callTimeout.String(), context.DeadlineExceeded)

// closeBody stops the timer of the http.Client's Timeout.
func closeBody(resp *http.Response) {
	if resp != nil {
		_ = resp.Body.Close()
	}
}

// The bounds on retrying a read.
const (
	maxRetries   = 4
	firstBackoff = 300 * time.Millisecond
	maxBackoff   = 10 * time.Second
	maxWait      = time.Hour // a longer Retry-After is not waited for
)

// repeat retries a read after wait, until the read succeeds, fails for good, or the next attempt
// would begin after the deadline. A mutation never comes here.
func (x *exchange) repeat(hr *http.Request, wait time.Duration) (*http.Response, error) {
	if err := backoff.Sleep(hr.Context(), wait); err != nil {
		return nil, err
	}
	rr, err := retryablehttp.FromRequest(hr)
	if err != nil {
		return nil, err
	}
	client := &retryablehttp.Client{
		HTTPClient:   &x.http,
		RetryMax:     maxRetries - 1,
		Backoff:      func(least, _ time.Duration, _ int, _ *http.Response) time.Duration { return least },
		ErrorHandler: retryablehttp.PassthroughErrorHandler,
	}
	client.CheckRetry = func(ctx context.Context, resp *http.Response, err error) (again bool, _ error) {
		client.RetryWaitMin, again = x.again(ctx, resp, err)
		return again, nil
	}
	return client.Do(rr)
}

// again decides after an attempt whether to retry the read, and after which wait.
func (x *exchange) again(ctx context.Context, resp *http.Response, err error) (wait time.Duration, again bool) {
	if ctx.Err() != nil || !isTransient(resp, err) {
		return 0, false
	}
	var asked time.Duration
	if resp != nil {
		asked = backoff.RetryAfter(x.answer.Header)
	}
	wait = asked + backoff.After(x.attempts, firstBackoff, maxBackoff)
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= wait {
		if resp != nil { // the error then has status and errNoTime
			x.err = errNoTime
		}
		return 0, false
	}
	return wait, asked <= maxWait
}

// errNoTime is the cause of a read that gives up before the deadline of its context.
var errNoTime = hidden("the deadline comes before the time to try again", context.DeadlineExceeded)

func isTransient(resp *http.Response, err error) bool {
	if err != nil {
		_, refused := errors.AsType[*ArgumentError](err)
		return !refused && !neterr.IsPermanent(err) && !errors.Is(err, ErrTooLarge)
	}
	switch resp.StatusCode {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// RoundTrip makes an attempt and reads the whole response, so that a cut 2xx response counts as
// a failed attempt. Any other status counts even if its body is cut.
func (x *exchange) RoundTrip(hr *http.Request) (*http.Response, error) {
	ctx := hr.Context()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var ends []func(Call)
	a, seen := x.attemptCall(), x.caller
	x.err = errPanicked
	defer func() { x.attempted(seen, a, ends) }()
	if observers := x.client.settings().attemptObservers; len(observers) > 0 {
		seen = begin(seen, observers, a, &ends)
		ctx = attemptContext{ctx, seen}
	}
	header, err := x.header(ctx, hr.Header)
	if err == nil && x.key != nil && x.request.effect == Mutation {
		if ctx, x.deadline = transport.WithDeadline(ctx); x.deadline.IsOver() { // even if the timer of the context is late
			err = context.DeadlineExceeded
		}
	}
	x.err = cmp.Or(err, errPanicked)
	if err != nil {
		return nil, err
	}
	x.attempts++
	hr = hr.WithContext(x.trace(ctx, hr.Header.Get("Authorization")))
	hr.Header = header
	if x.request.effect == Mutation {
		guard(hr)
	}
	resp, err := x.transport().RoundTrip(hr)
	switch {
	case err != nil:
		resp = nil
	case resp == nil:
		err = errNoAnswer
	default:
		err = x.read(resp)
	}
	x.err = err
	if resp != nil {
		x.protocol = resp.Proto
		a.StatusCode, a.Protocol = resp.StatusCode, resp.Proto
	}
	if err != nil && (resp == nil || resp.StatusCode < 300) {
		return nil, err
	}
	// Only the status goes up: there is no Location to follow or to quote.
	x.reply = http.Response{StatusCode: resp.StatusCode, Body: http.NoBody}
	return &x.reply, nil
}

// transport returns the client's own transport for fresh connections if the request may share none.
func (x *exchange) transport() http.RoundTripper {
	s := x.client.settings()
	if s.fresh != nil && (x.request.effect == Mutation || x.isCheck() || s.fresh.SpeaksHTTP2()) {
		return s.fresh
	}
	return s.http.Transport
}

// guard makes net/http send the request once. If a connection breaks after the service has read
// a request, net/http resends a request without a body, or with GetBody, but never a request
// with a partly read body. So a GET gets an empty body, which does not appear on the wire.
//
// A POST without a body has no guard: net/http would send an empty body chunked, which services
// refuse without a content type. Over HTTP/1.1 net/http does not resend the POST. Over HTTP/2, and
// if a caller's transport resends the POST, [exchange.trace] stops the copy.
func guard(hr *http.Request) {
	hr.GetBody = nil
	if hr.Body == nil && hr.Method == http.MethodGet {
		hr.Body = io.NopCloser(emptyBody{})
	}
}

// emptyBody is an empty body that net/http cannot recognize as empty.
type emptyBody struct{}

func (emptyBody) Read([]byte) (int, error) { return 0, io.EOF }

// maxSent bounds the sends of a read, with room for stale connections: net/http resends a read
// once for each stale HTTP/1 connection, and without a bound if the peer keeps refusing HTTP/2
// streams or connections.
const maxSent = 2 * (1 + maxRetries)

// trace counts the sends of the transport, and ends the call when the transport gets a
// connection for a second send of a mutation, or for more than maxSent sends of a read. The
// transport of a caller may repeat requests below every other guard.
//
// The end of the context stops HTTP/2 before it writes, but not HTTP/1: there trace closes the
// connection under the request, against the advice of httptrace. trace does the same if the
// deadline of a mutation with a key is over. Requests of a caller's transport to others do not
// count, because they lack the marks of the request: Host, User-Agent and Authorization. A
// transport may replace some of the marks.
func (x *exchange) trace(ctx context.Context, authorization string) context.Context {
	most := int32(1)
	if x.request.effect == Read {
		most = maxSent
	}
	hooks := &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		isLate := x.deadline.IsOver()
		if !isLate {
			x.gotConn.Add(1)
			x.reused.Store(x.reused.Load() || got.Reused)
			x.deadline.Got(got.Conn)
			x.use.Begin(got.Conn)
		}
		x.excess.Store(x.excess.Load() || x.written() >= most)
		if isLate || x.excess.Load() {
			x.stop()
			if c, ok := got.Conn.(*tls.Conn); got.Conn != nil && (!ok || c.ConnectionState().NegotiatedProtocol != "h2") {
				_ = got.Conn.Close()
			}
		}
	}}
	isGuarded := x.request.effect == Read || x.request.method == http.MethodGet || x.payload != nil || x.request.isUpload()
	if fresh := x.client.settings().fresh; fresh != nil && x.request.effect == Read {
		hooks.PutIdleConn = func(error) { x.use.End() }
	}
	switch {
	case x.client.settings().foreign:
	case isGuarded:
		hooks.WroteHeaders = func() { x.wrote(0) }
		return httptrace.WithClientTrace(ctx, hooks)
	default: // net/http over HTTP/2 may send it again, before WroteHeaders
		hooks.WroteHeaderField = func(name string, _ []string) {
			if isHostField(name) {
				x.wrote(0)
			}
		}
		return httptrace.WithClientTrace(ctx, hooks)
	}
	hooks.WroteHeaderField = func(name string, value []string) {
		text := strings.Join(value, "")
		switch {
		case isHostField(name) && strings.EqualFold(text, x.client.settings().base.Host):
			x.wrote(0)
		case strings.EqualFold(name, "User-Agent") && text == x.client.settings().userAgent[0]:
			x.wrote(1)
		case strings.EqualFold(name, "Authorization") && text == authorization && text != "":
			x.wrote(2)
		}
	}
	return httptrace.WithClientTrace(ctx, hooks)
}

// wrote counts a mark of the request. After trace has ended the call, net/http may still format a
// head, for the connection that trace has closed.
func (x *exchange) wrote(mark int) {
	if !x.excess.Load() {
		x.marks[mark].Add(1)
	}
}

// isHostField reports whether name is the host field of HTTP/1 or HTTP/2.
func isHostField(name string) bool { return name == "Host" || name == ":authority" }

// read reads the response into x, as far as possible.
func (x *exchange) read(resp *http.Response) error {
	x.answer, x.parsed = Response{StatusCode: resp.StatusCode, Header: resp.Header}, parsedAnswer{}
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
