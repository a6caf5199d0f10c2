package lending

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"time"

	"github.com/lendingapi/lending-go/internal/redact"
)

// callTimeout bounds a call whose context has no deadline.
const callTimeout = 2 * time.Minute

// get calls a route that changes nothing. It may be repeated.
func get[T any](ctx context.Context, c *carrier, r request) (T, error) {
	r.method, r.effect = http.MethodGet, Read
	return call[T](ctx, c, r)
}

// mutatingGet calls a route that is a GET and changes state all the same. It is sent at most once.
func mutatingGet[T any](ctx context.Context, c *carrier, r request) (T, error) {
	r.method, r.effect = http.MethodGet, Mutation
	return call[T](ctx, c, r)
}

// post calls a route that is a POST. It is sent at most once.
func post[T any](ctx context.Context, c *carrier, r request) (T, error) {
	r.method, r.effect = http.MethodPost, Mutation
	return call[T](ctx, c, r)
}

// postNoContent calls a POST whose answer is not published. It is sent at most once.
func postNoContent(ctx context.Context, c *carrier, r request) error {
	_, err := post[nothing](ctx, c, r)
	return err
}

// call takes the call that r describes through five stages: check, token, attempt, answer and
// done. The first error ends it, and done runs after any. The layer of [WithIdempotency] stands
// between check and token: it has the stages up to the status of the answer run once, or has
// the answer of an earlier call.
func call[T any](ctx context.Context, c *carrier, r request) (result T, err error) {
	x := &exchange{client: c, request: r, result: reflect.TypeFor[T]()}
	err = errPanicked
	defer func() { x.done(err) }()
	result, err = perform[T](x.begin(x.takeKey(ctx)), x)
	return result, err
}

// perform is call without its end.
func perform[T any](ctx context.Context, x *exchange) (result T, err error) {
	capture := captured(ctx)
	body, err := x.check()
	if err != nil {
		return result, err
	}
	ctx = x.bound(ctx)
	defer x.stop()
	var succeeded bool
	if x.key != nil {
		succeeded, err = x.client.settings().doOnce(ctx, x, body)
	} else {
		err = x.deliver(ctx, body)
		succeeded = err == nil
	}
	capture.keep(x.answer)
	if succeeded { // beside an error of the layer, too
		if failed := x.lost(decodeAnswer(x, &result)); err == nil {
			err = failed
		}
	}
	return result, err
}

// check returns the body, and refuses what must not be sent.
func (x *exchange) check() ([]byte, error) {
	body, err := x.request.prepare()
	if err == nil && x.key != nil {
		err = x.checkKey()
	}
	return body, err
}

// deliver sends the request with a token, and a read once more with a new token if the
// service does not accept the first. Its error says that the answer is no success. This is
// the only loop of the package's own; [exchange.repeat] holds the other, for reads.
func (x *exchange) deliver(ctx context.Context, body []byte) error {
	for replayed := false; ; replayed = true {
		token, err := x.client.token(ctx, &x.request)
		if err != nil {
			return x.notSent(err)
		}
		if err := x.attempt(ctx, token, body); err != nil {
			return err
		}
		refused := x.answer.StatusCode == http.StatusUnauthorized && x.client.drop(token)
		if !refused || x.request.effect == Mutation || replayed {
			return x.failure()
		}
	}
}

// bound ends ctx in time, so that the call cannot go on for ever, and in x.stop. With a key
// it has a deadline that others can wait for.
func (x *exchange) bound(ctx context.Context) context.Context {
	switch _, ok := ctx.Deadline(); {
	case !x.request.isUpload() && (x.key != nil || !ok):
		ctx, x.stop = context.WithTimeout(ctx, callTimeout)
	case x.key != nil && !ok:
		ctx, x.stop = context.WithTimeout(ctx, uploadLease)
	default:
		ctx, x.stop = context.WithCancel(ctx)
	}
	return ctx
}

// begin tells the observers of calls of one that begins, and returns the context for it.
func (x *exchange) begin(ctx context.Context) context.Context {
	observers := x.client.settings().callObservers
	if len(observers) == 0 {
		return ctx
	}
	x.call = Call{Method: x.request.method, Route: x.request.path, Effect: x.request.effect, Start: time.Now(), Idempotency: x.call.Idempotency}
	for _, observe := range observers {
		inner, end := observe(ctx, x.call)
		if inner != nil {
			ctx = inner //nolint:fatcontext // each stands in the one before
		}
		if end != nil {
			x.ends = append(x.ends, end)
		}
	}
	return ctx
}

// done tells the observers of the end of the call, the last to begin first, also if one of
// them panics.
func (x *exchange) done(err error) {
	if len(x.ends) == 0 {
		return
	}
	x.call.Duration = time.Since(x.call.Start)
	x.call.Attempts, x.call.StatusCode, x.call.Err = x.sent(), x.answer.StatusCode, err
	if x.call.Outcome = OutcomeOf(err); errors.Is(err, errPanicked) {
		x.call.Outcome = x.outcome()
	}
	for _, end := range x.ends {
		defer end(x.call) //nolint:gocritic // all are called, whatever one of them does
	}
}

// token returns the token for r, which is the zero Token for an anonymous route.
func (c *carrier) token(ctx context.Context, r *request) (Token, error) {
	switch {
	case r.anonymous || !r.token.Value.IsZero():
		return r.token, nil
	case c.settings().tokens == nil:
		return Token{}, errNoTokens
	}
	token, err := c.settings().tokens.Token(ctx)
	if err != nil && !redact.IsKnown(err) {
		err = hidden("the source of tokens failed", err)
	}
	if err == nil && !isHeaderSafe(token.Value.Reveal()) {
		err = errBadToken
	}
	return token, err
}

// drop tells the token source that the service refused token, and reports whether
// the source can get another.
func (c *carrier) drop(token Token) bool {
	source, ok := c.settings().tokens.(interface{ Invalidate(Token) })
	if !ok || token.Value.IsZero() {
		return false
	}
	source.Invalidate(token)
	return true
}
