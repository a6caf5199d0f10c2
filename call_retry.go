package lending

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/lendingapi/lending-go/internal/backoff"
	"github.com/lendingapi/lending-go/internal/neterr"
	"github.com/lendingapi/lending-go/internal/redact"
	"github.com/lendingapi/lending-go/internal/signin"
	"github.com/lendingapi/lending-go/internal/verdict"
)

// callTimeout bounds a call whose context has no deadline.
const callTimeout = 2 * time.Minute

// deliver sends the request with a token. If the service refuses the token, deliver sends a read
// once more with a new token, and again if the new token comes from a [TokenStore] and is
// refused too. deliver returns an error if there is no response. This is the only loop around
// attempts besides [exchange.repeat], which is for reads.
func (x *exchange) deliver(ctx context.Context) error {
	for sent := 1; ; sent++ {
		token, err := x.settings.token(ctx, &x.request)
		if err != nil {
			return x.notSent(err)
		}
		if err := x.attempt(ctx, token); err != nil {
			return err
		}
		refused := x.answer.StatusCode == http.StatusUnauthorized && x.settings.drop(token)
		again := sent == 1 || sent == 2 && token.adopted
		if !refused || x.request.effect == Mutation || !again {
			return nil
		}
	}
}

// token returns the token for r, the zero Token for an anonymous route.
func (s *settings) token(ctx context.Context, r *request) (Token, error) {
	switch {
	case r.anonymous || !r.token.Value.IsZero():
		return r.token, nil
	case s.tokens == nil:
		return Token{}, errNoTokens
	}
	token, err := s.tokens.Token(ctx)
	if err != nil && !redact.IsKnown(err) {
		err = hidden("the source of tokens failed; check the TokenSource", err)
	}
	if err == nil && !isHeaderSafe(token.Value.Reveal()) {
		err = errBadToken
	}
	return token, err
}

var (
	errBadToken error = redact.Text("the token is empty or holds bytes that no header may hold; check the TokenSource")
	errNoTokens       = hidden("the client has no source of tokens; use WithCredentials or WithTokenSource", ErrSignInRequired)
)

// drop tells the token source that the service refused token, and reports whether the source can
// get another.
func (s *settings) drop(token Token) bool {
	source, ok := s.tokens.(interface{ Invalidate(Token) })
	if !ok || token.Value.IsZero() {
		return false
	}
	source.Invalidate(token)
	return true
}

// attempt sends a mutation once, and a read up to 1 + retries times. It returns an error without a
// response, and for a cut 2xx response.
func (x *exchange) attempt(ctx context.Context, token Token) error {
	x.caller = ctx
	x.http = x.settings.http
	x.http.Transport = x
	resp, err := x.once(ctx, token)
	if x.request.effect == Read && x.settings.retries > 0 {
		if wait, again := x.again(ctx, resp, err); again {
			closeBody(resp)
			resp, err = x.repeat(x.newRequest(ctx, token), wait) //nolint:bodyclose // ended closes it
		}
	}
	return x.ended(ctx, resp, err)
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
	case x.sends.excess.Load() && x.request.effect == Read:
		err = errSentOften
	case x.sends.excess.Load() && x.settings.foreign:
		err = errSentAgain
	case x.sends.excess.Load():
		err = errEnded
	case x.isOver():
		err = context.DeadlineExceeded
	case ctx.Err() != nil:
		err = ctx.Err()
	case neterr.IsTLS(err) && !x.settings.foreign:
		err = hidden(redact.Describe(err)+"; check WithTLS", err)
	}
	return x.failed(err)
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
		RetryMax:     int(x.settings.retries) - 1,
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
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(time.Now().Add(wait)) {
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
		return !refused && !neterr.IsPermanent(err) && !errors.Is(err, ErrTooLarge) && !errors.Is(err, errFinal)
	}
	switch resp.StatusCode {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// refusal returns the error of a response without a status of success.
func (x *exchange) refusal() error {
	cause := x.err
	switch {
	case cause != nil:
	case x.wantsBody():
		e := x.failed(errNeedsBody)
		e.said = &Next{}
		return e
	case x.request.effect == Mutation && x.outcome() == OutcomeRejected && !x.hasVerdict():
		cause = hidden("a gateway may have refused the request: the answer is "+x.answer.kind()+", no problem record", verdict.ErrGateway)
	case x.isEmptyNotFound() && !x.isMissing():
		cause = hidden(x.hintMissing(), verdict.ErrEmptyNotFound)
	case len(x.answer.Body) > 0 && mediaType(x.answer.Header) == "text/html":
		cause = errHTML
	}
	return x.failed(cause)
}

// wantsBody reports whether the service refuses the null of an optional request record: a 415, which
// is empty on older hosts, or a 400 about the body, whose field has no name.
func (x *exchange) wantsBody() bool {
	if !x.request.isNull() {
		return false
	}
	switch problem := parseProblem(&x.answer.Response); x.answer.StatusCode {
	case http.StatusUnsupportedMediaType:
		return len(x.answer.Body) == 0 || problem.rejects()
	case http.StatusBadRequest:
		return slices.ContainsFunc(problem.fieldErrors(), func(f FieldError) bool { return f.Field == "" })
	}
	return false
}

// hasVerdict reports whether a rejection is the service's own. A missing token and a rate limit have rules of
// their own. After a sign-in any form but HTML counts: another try could lock the account.
func (x *exchange) hasVerdict() bool {
	switch x.answer.StatusCode {
	case http.StatusUnauthorized, http.StatusTooManyRequests:
		return true
	}
	return isSignIn(x.request.path) && x.answer.kind() != "HTML" || parseProblem(&x.answer.Response).rejects()
}

// isEmptyNotFound reports whether a read got a 404 without a body: an older host answers so for a
// missing record and for an unknown path.
func (x *exchange) isEmptyNotFound() bool {
	return x.request.effect == Read && x.answer.StatusCode == http.StatusNotFound && x.err == nil && len(x.answer.Body) == 0
}

// isMissing reports whether [WithMissing] takes the response to a read for a missing record.
func (x *exchange) isMissing() bool {
	status, ok := x.settings.missing[x.request.path]
	return ok && x.request.effect == Read && x.answer.StatusCode == status && x.err == nil && len(x.answer.Body) == 0
}

// hintMissing names the option for an empty 404.
func (x *exchange) hintMissing() string {
	for read, path := range readRoutes {
		if path == x.request.path {
			return fmt.Sprintf("the answer is empty, as of an unknown path; if the probe prints it, set lending.WithMissing(%q, 404)", read)
		}
	}
	return "the answer is empty, as of an unknown path"
}

// failed returns the error of the call in its current state.
func (x *exchange) failed(cause error) *Error {
	e := &Error{
		Method:     x.request.method,
		Route:      x.request.path,
		Effect:     x.request.effect,
		StatusCode: x.answer.StatusCode,
		Outcome:    x.outcome(),
		RetryAfter: backoff.RetryAfter(x.answer.Header),
		Attempts:   x.sent(),
		cause:      hide(cause),
		isMissing:  x.isMissing(),
	}
	if answer := x.answer.Response; answer.StatusCode != 0 {
		e.response = func() *Response { return &answer }
	}
	if e.StatusCode >= 300 || x.answer.content().failed == verdict.ProblemRecord {
		e.Problem = parseProblem(&x.answer.Response)
	}
	if e.Effect == Read && e.Outcome == OutcomeDone { // a failed read has no effect
		e.Outcome = OutcomeUnknown
	}
	if e.Effect == Mutation {
		e.CheckWith = x.request.checkWith
	}
	if x.key != nil {
		e.IdempotencyKey = x.key.name
	}
	if own, ok := errors.AsType[interface {
		error
		Next() Next
	}](cause); ok {
		said := own.Next()
		e.said = &said
	}
	return e
}

// notSent returns the error of a call that got no token.
func (x *exchange) notSent(cause error) error {
	e := x.failed(cause)
	if paused, ok := errors.AsType[*signin.PausedError](cause); ok {
		e.RetryAfter = max(e.RetryAfter, time.Until(paused.Until))
	} else if signIn, ok := errors.AsType[*Error](cause); ok {
		e.RetryAfter = max(e.RetryAfter, signIn.RetryAfter)
	}
	if s, ok := x.settings.tokens.(interface{ pause() time.Duration }); ok {
		e.RetryAfter = max(e.RetryAfter, s.pause())
	}
	return e
}
