package lending

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// The largest answers that are read, decompressed.
const (
	maxAnswer  = 64 << 20
	maxProblem = 1 << 20
)

// Attempt is one attempt of a call to reach the service, without any value of a
// parameter.
type Attempt struct {
	Method     string // for example "POST"
	Route      string // path template
	Effect     Effect
	Number     int // 1 for the first
	StatusCode int // 0 if there was no answer
	Duration   time.Duration
	Outcome    Outcome // of the call if this attempt is its last; OutcomeDone for success
	Err        error   // nil for an answer that was received whole, whatever its status
}

func (a Attempt) log(logger *slog.Logger) {
	level := slog.LevelDebug
	if a.Outcome != OutcomeDone || a.Err != nil {
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{
		slog.String("method", a.Method), slog.String("route", a.Route), slog.String("effect", a.Effect.String()),
		slog.Int("attempt", a.Number), slog.Int("status", a.StatusCode),
		slog.Duration("duration", a.Duration), slog.String("outcome", a.Outcome.String()),
	}
	if a.Err != nil {
		attrs = append(attrs, slog.String("error", a.Err.Error()))
	}
	logger.LogAttrs(context.Background(), level, "lending attempt", attrs...)
}

// exchange is one call's conversation with the service. It is the RoundTripper below
// the http.Client of the call, so that it sees every attempt whoever makes it, and
// nothing above it can undo what it does.
type exchange struct {
	client  *Client
	request *request

	attempts int
	answer   Response      // the last there was
	err      error         // what ended the last attempt
	wait     time.Duration // before the next attempt

	// How often the transport looked for a connection, and had one. The hooks may
	// run after the attempt has returned.
	getConn, gotConn atomic.Int32
}

// send makes the attempts of one call: one, or more for a read. Its error says that
// no answer was received, or not all of it.
func (x *exchange) send(ctx context.Context, token Token, body []byte) error {
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { x.getConn.Add(1) },
		GotConn: func(httptrace.GotConnInfo) { x.gotConn.Add(1) },
	})
	hr := x.client.bind(ctx, x.request, token, body)
	hc := x.client.settings.http
	hc.Transport = x
	var err error
	if x.request.effect == Read {
		err = x.repeat(&hc, hr)
	} else {
		_, err = hc.Do(hr) //nolint:bodyclose // RoundTrip has read and closed it
	}
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = ctx.Err()
		if context.Cause(ctx) == errStalled {
			err = errStalled
		}
	} else if x.err != nil {
		err = x.err
	}
	return x.failed(err)
}

// RoundTrip makes one attempt and reads the whole answer, so that a body that is cut
// counts as a failure of the attempt.
func (x *exchange) RoundTrip(hr *http.Request) (*http.Response, error) {
	if err := hr.Context().Err(); err != nil {
		return nil, err
	}
	x.attempts++
	start := time.Now()
	if x.request.effect == Mutation {
		hr = x.guard(hr)
	}
	resp, err := x.client.settings.http.Transport.RoundTrip(hr)
	if err == nil {
		err = x.read(resp)
	}
	x.err = err
	x.observe(start, resp)
	if err != nil {
		return nil, err
	}
	// A 3xx without Location is returned as it is: no redirect is followed, and no
	// unparsable Location quoted.
	resp.Header = resp.Header.Clone()
	resp.Header.Del("Location")
	resp.Body = http.NoBody
	return resp, nil
}

// guard makes sure that net/http sends the request once. It repeats by itself a
// request without a body, or with GetBody, when the connection breaks after the
// service has read it. It does not repeat one whose body it has begun to read:
// a GET gets an empty body, of which nothing shows on the wire.
//
// A POST without a body would have to be sent chunked. It is left as it is over the
// package's own transport, which speaks HTTP/1.1 and adds no Idempotency-Key: there
// net/http does not repeat a POST.
func (x *exchange) guard(hr *http.Request) *http.Request {
	guarded := hr.WithContext(hr.Context())
	guarded.GetBody = nil
	if guarded.Body == nil && (guarded.Method == http.MethodGet || x.client.settings.foreign) {
		guarded.Body = io.NopCloser(emptyBody{})
	}
	return guarded
}

// emptyBody is a body that net/http cannot know to be empty.
type emptyBody struct{}

func (emptyBody) Read([]byte) (int, error) { return 0, io.EOF }

// read reads the answer into x, as far as it comes.
func (x *exchange) read(resp *http.Response) error {
	limit := int64(maxAnswer)
	if resp.StatusCode >= 300 {
		limit = maxProblem
	}
	var body bytes.Buffer
	if resp.ContentLength > 0 {
		body.Grow(int(min(resp.ContentLength, limit)) + bytes.MinRead)
	}
	_, err := body.ReadFrom(io.LimitReader(resp.Body, limit+1))
	_ = resp.Body.Close()
	if err == nil && int64(body.Len()) > limit {
		err = ErrTooLarge
		body.Truncate(int(limit))
	}
	x.answer = Response{resp.StatusCode, resp.Header, body.Bytes()}
	return err
}

func (x *exchange) observe(start time.Time, resp *http.Response) {
	if len(x.client.settings.observers) == 0 {
		return
	}
	a := Attempt{
		Method: x.request.method, Route: x.request.path, Effect: x.request.effect,
		Number: x.attempts, Duration: time.Since(start), Outcome: x.outcome(), Err: hide(x.err),
	}
	if resp != nil {
		a.StatusCode = resp.StatusCode
	}
	for _, observe := range x.client.settings.observers {
		observe(a)
	}
}

// outcome says what the attempts have done, from what was seen of them. It never
// asks the last error: after a repetition "connection refused" can follow a
// request that was executed.
func (x *exchange) outcome() Outcome {
	status := x.answer.StatusCode
	switch {
	case status == 0 && !x.reached():
		return OutcomeNotSent
	case status == 0, x.request.effect == Mutation && x.gotConn.Load() > 1 && status >= 300:
		return OutcomeUnknown
	case status >= 200 && status < 300:
		if x.isHTML() {
			return OutcomeUnknown // a sign-in page, a proxy's page
		}
		return OutcomeDone
	case status == http.StatusRequestTimeout, status < 400, status >= 500:
		return OutcomeUnknown
	case status == http.StatusBadRequest && x.request.bulk && len(x.problem().fieldErrors()) == 0:
		return OutcomeUnknown // whether a batch is all or nothing is not published
	}
	return OutcomeRejected
}

// reached reports whether any attempt may have reached the service.
func (x *exchange) reached() bool {
	if x.attempts == 0 {
		return false
	}
	if u, ok := x.request.body.(*upload); ok && !u.complete.Load() {
		return false // a part of a document is no command
	}
	if x.getConn.Load() > 0 {
		return x.gotConn.Load() > 0
	}
	// No trace: the transport is not net/http's, or it gave up before it began.
	if _, ok := x.client.settings.http.Transport.(*http.Transport); ok {
		return false
	}
	var network *net.OpError
	return x.attempts > 1 || !errors.As(x.err, &network) || network.Op != "dial"
}

func (x *exchange) isHTML() bool {
	body := bytes.TrimLeft(bytes.TrimPrefix(x.answer.Body, utf8BOM), " \t\r\n")
	return mediaType(x.answer.Header) == "text/html" || bytes.HasPrefix(body, []byte("<"))
}

func (x *exchange) problem() *ProblemDetails { return parseProblem(x.answer.Body) }

// notSent returns the error of a call that did not get a token.
func (x *exchange) notSent(cause error) error {
	e := x.failed(cause)
	e.Outcome = OutcomeNotSent
	return e
}

// failure returns the error of an answer that is not a success, nil if it is one.
func (x *exchange) failure() error {
	switch status := x.answer.StatusCode; {
	case status < 200 || status >= 300:
		return x.failed(nil)
	case x.isHTML():
		return x.failed(errHTML)
	}
	return nil
}

// lost returns the error of a success whose answer does not decode, nil for nil.
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
		StatusCode: x.answer.StatusCode,
		Outcome:    x.outcome(),
		RetryAfter: retryAfter(x.answer.Header),
		SettledBy:  settledBy[x.request.method+" "+x.request.path],
		Attempts:   x.attempts,
		Body:       x.answer.Body,
		cause:      hide(cause),
	}
	if e.StatusCode >= 300 {
		e.Problem = x.problem()
	}
	if x.request.effect == Read {
		e.SettledBy = ""
	}
	return e
}
