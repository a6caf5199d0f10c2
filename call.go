package lending

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"reflect"
	"time"
)

// get calls a route that changes nothing. The client may repeat the call.
func get[T any](ctx context.Context, c *carrier, r request) (T, error) {
	r.method, r.effect = http.MethodGet, Read
	return call[T](ctx, c, r)
}

// mutatingGet calls a GET that changes state. The client sends it at most once.
func mutatingGet[T any](ctx context.Context, c *carrier, r request) (T, error) {
	r.method, r.effect = http.MethodGet, Mutation
	return call[T](ctx, c, r)
}

// post calls a POST. The client sends it at most once.
func post[T any](ctx context.Context, c *carrier, r request) (T, error) {
	r.method, r.effect = http.MethodPost, Mutation
	return call[T](ctx, c, r)
}

// postNoContent calls a POST without a declared response. The client sends it at most once.
func postNoContent(ctx context.Context, c *carrier, r request) error {
	_, err := post[nothing](ctx, c, r)
	return err
}

// call builds the request, sends it and judges the answer. The first error ends the call, and
// done runs after any. A mutation with a key goes through the layer of [WithIdempotency]: the
// layer sends it, or returns the response of an earlier call.
func call[T any](ctx context.Context, c *carrier, r request) (result T, err error) {
	x := &exchange{client: c, request: r, result: reflect.TypeFor[T]()}
	err = errPanicked
	defer func() { x.done(err) }()
	err = x.perform(x.begin(x.takeKey(ctx)), reflect.ValueOf(&result).Elem())
	return result, err
}

// perform makes the call and decodes its answer into result.
func (x *exchange) perform(ctx context.Context, result reflect.Value) (err error) {
	capture := captured(ctx)
	if err := x.build(); err != nil {
		return err
	}
	ctx = x.bound(ctx)
	defer x.stop()
	var answered bool
	if x.key == nil {
		err = x.deliver(ctx)
		answered = err == nil
	} else {
		answered, err = x.client.settings().doOnce(ctx, x)
	}
	capture.keep(x.answer)
	if !answered {
		return err
	}
	return cmp.Or(err, x.judge(result)) // the layer may return an answer and an error
}

// takeKey moves the key from ctx to the exchange, so that no call on the way has the key. It
// also marks the checks of a layer.
func (x *exchange) takeKey(ctx context.Context) context.Context {
	switch key := keyIn(ctx); {
	case key == nil:
	case !key.check:
		x.key = key
		return withoutKey(ctx)
	case x.request.effect == Read:
		x.call.Idempotency = idempotencyCheck
	}
	return ctx
}

// bound gives ctx an end: a deadline if there is none, and x.stop. A call with a key always has
// a deadline, for which other calls with the key can wait.
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

// begin tells the observers of the start of a call, and returns the context for the call.
func (x *exchange) begin(ctx context.Context) context.Context {
	observers := x.client.settings().callObservers
	if len(observers) == 0 {
		return ctx
	}
	x.call = Call{Method: x.request.method, Route: x.request.path, Effect: x.request.effect, Start: time.Now(), Idempotency: x.call.Idempotency}
	return begin(ctx, observers, x.call, &x.ends)
}

// done tells the observers of the end of the call.
func (x *exchange) done(err error) {
	if len(x.ends) == 0 {
		return
	}
	x.call.Duration = time.Since(x.call.Start)
	x.call.Attempts, x.call.StatusCode, x.call.Protocol, x.call.Err = x.sent(), x.answer.StatusCode, x.protocol, err
	if x.call.Outcome = OutcomeOf(err); errors.Is(err, errPanicked) {
		x.call.Outcome = x.outcome()
	}
	end(x.ends, x.call)
}
