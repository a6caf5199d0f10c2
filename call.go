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

// command calls a route that is a GET and changes state all the same. It is sent at most once.
func command[T any](ctx context.Context, c *carrier, r request) (T, error) {
	r.method, r.effect = http.MethodGet, Mutation
	return call[T](ctx, c, r)
}

// post calls a route that is a POST. It is sent at most once.
func post[T any](ctx context.Context, c *carrier, r request) (T, error) {
	r.method, r.effect = http.MethodPost, Mutation
	return call[T](ctx, c, r)
}

// tell posts to a route whose answer nobody published. It is sent at most once.
func tell(ctx context.Context, c *carrier, r request) error {
	_, err := post[nothing](ctx, c, r)
	return err
}

// call makes the call that r describes, and tells those who observe it.
func call[T any](ctx context.Context, c *carrier, r request) (result T, err error) {
	x := &exchange{client: c, request: r, result: reflect.TypeFor[T]()}
	err = errPanicked
	defer func() { x.end(err) }()
	result, err = perform[T](x.begin(x.takeKey(ctx)), x)
	return result, err
}

// perform checks the arguments, has the request sent, and decodes the answer: the
// status decides, then the content type, then the shape.
func perform[T any](ctx context.Context, x *exchange) (T, error) {
	var result T
	into := captured(ctx)
	body, err := x.request.prepare()
	if err != nil {
		return result, err
	}
	ctx = x.bound(ctx)
	defer x.stop()
	answered, err := x.deliver(ctx, body)
	if into != nil {
		*into = x.answer
	}
	if answered {
		if failed := x.lost(decodeAnswer(x, &result)); err == nil {
			err = failed
		}
	}
	return result, err
}

// deliver has the request sent, through the layer if the call has a key. answered says that
// there is a success to decode.
func (x *exchange) deliver(ctx context.Context, body []byte) (answered bool, err error) {
	if x.key != nil {
		if err := x.checkKey(); err != nil {
			return false, err
		}
		return x.client.settings().doOnce(ctx, x, body)
	}
	if err = x.do(ctx, body); err == nil {
		err = x.failure()
	}
	return err == nil, err
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

// do sends the request with a token, and a read once more with a new token if the
// service does not accept the first. It is the only loop of ours; [exchange.repeat]
// holds the other, for reads.
func (x *exchange) do(ctx context.Context, body []byte) error {
	for replayed := false; ; replayed = true {
		token, err := x.client.token(ctx, &x.request)
		if err != nil {
			return x.notSent(err)
		}
		if err := x.send(ctx, token, body); err != nil {
			return err
		}
		if x.answer.StatusCode != http.StatusUnauthorized || !x.client.drop(token) || x.request.effect == Mutation || replayed {
			return nil
		}
	}
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

// end tells those who want to know of the end of the call, the last to begin first, also
// if one of them panics.
func (x *exchange) end(err error) {
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
