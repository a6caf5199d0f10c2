package lending

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lendingapi/lending-go/internal/opaque"
)

// get calls a route that changes nothing. The client may repeat the call.
func get[T any](ctx context.Context, c *carrier, r request) (T, error) {
	r.method, r.effect = http.MethodGet, Read
	return do[T](ctx, c, r)
}

// mutatingGet calls a GET that changes state. The client sends it at most once.
func mutatingGet[T any](ctx context.Context, c *carrier, r request) (T, error) {
	r.method, r.effect = http.MethodGet, Mutation
	return do[T](ctx, c, r)
}

// post calls a POST. The client sends it at most once.
func post[T any](ctx context.Context, c *carrier, r request) (T, error) {
	r.method, r.effect = http.MethodPost, Mutation
	return do[T](ctx, c, r)
}

// postNoContent calls a POST without a declared response. The client sends it at most once.
func postNoContent(ctx context.Context, c *carrier, r request) error {
	_, err := post[nothing](ctx, c, r)
	return err
}

// carrier sends the calls of a client. The services hold the carrier, which knows neither the
// services nor the client.
type carrier struct {
	hidden opaque.Value[*settings]
	// doOnce sends a mutation that has a key; nil if the client has no layer for keys.
	doOnce func(ctx context.Context, c *call) (answered bool, err error)
}

func (c *carrier) settings() *settings { return c.hidden() }

type call struct {
	exchange

	carrier *carrier
	seen    Call         // by the observers
	ends    []func(Call) // functions of the observers for the end of the call
}

// do builds the request, sends it and judges the answer. The first error ends the call, and
// done runs after any. A mutation with a key goes through the layer of [WithIdempotency]: the
// layer sends it, or returns the response of an earlier call.
func do[T any](ctx context.Context, carrier *carrier, r request) (result T, err error) {
	r.proof.result = reflect.TypeFor[T]()
	c := &call{carrier: carrier, exchange: exchange{settings: carrier.settings(), request: r}}
	err = errPanicked
	defer func() { c.done(err) }()
	failed := c.perform(c.begin(c.takeKey(ctx)), reflect.ValueOf(&result).Elem())
	if u, ok := r.body.(streamed); ok {
		u.finish(ctx, failed) // before the observers have the error
	}
	return result, failed
}

// perform makes the call and decodes its answer into result.
func (c *call) perform(ctx context.Context, result reflect.Value) (err error) {
	capture := captured(ctx)
	if err := c.build(); err != nil {
		return err
	}
	ctx = c.bound(ctx)
	defer c.sends.stop()
	var answered bool
	if c.key == nil {
		err = c.deliver(ctx)
		answered = err == nil
	} else {
		answered, err = c.carrier.doOnce(ctx, c)
	}
	capture.keep(c.answer.Response)
	if !answered {
		return err
	}
	return cmp.Or(err, c.judge(result)) // the layer may return an answer and an error
}

// build checks the request, and makes its address and its payload. The error has every broken
// rule of the request.
func (c *call) build() (err error) {
	c.payload, err = c.request.prepare(c.key != nil)
	if err == nil && c.key != nil {
		err = c.checkKey()
	}
	if err == nil {
		c.address = c.request.address(c.settings.base)
		err = c.request.checkAddress(&c.address)
	}
	return err
}

// judge decodes the answer into result, or returns why the answer is no success.
func (c *call) judge(result reflect.Value) error {
	if c.answer.noRecord {
		if result.Kind() == reflect.Pointer {
			result.Set(reflect.New(result.Type().Elem()))
		}
		return nil
	}
	if err := c.failure(); err != nil {
		return err
	}
	if c.idempotency == idempotencyCheck && !c.shows() {
		return c.failed(errNoValue)
	}
	return c.lost(c.request.proof.decode(&c.answer, c.request.effect, result))
}

// failure returns the error of a response that is no success, nil for a success.
func (c *call) failure() error {
	if !isSuccess(c.answer.StatusCode) {
		return c.refusal()
	}
	return c.lost(c.request.proof.doubt(&c.answer))
}

// lost returns the error of a 2xx response that is in doubt or does not decode, nil for nil.
func (c *call) lost(cause error) error {
	if cause == nil {
		return nil
	}
	e := c.failed(cause)
	if e.Outcome == OutcomeDone && c.key == nil { // whole, and no repetition decodes it; a layer checks or asks a person
		e.said = &Next{Person: true}
	}
	return e
}

// shows reports whether the 2xx answer to a check shows records, or their absence: a gateway in
// maintenance can answer with an empty response. [WithMissing] replaces the assumption about 204.
func (c *call) shows() bool {
	if c.answer.StatusCode == http.StatusNoContent {
		measured, ok := c.settings.missing[c.request.path]
		return measured == http.StatusNoContent || !ok && c.request.noneIs204
	}
	return c.answer.StatusCode == http.StatusOK && len(c.answer.content().body) > 0
}

// takeKey moves the key from ctx to the call, so that no call on the way has the key. It
// also marks the checks of a layer.
func (c *call) takeKey(ctx context.Context) context.Context {
	switch key := keyIn(ctx); {
	case key == nil:
	case !key.check:
		c.key = key
		return withoutKey(ctx)
	case c.request.effect == Read:
		c.idempotency = idempotencyCheck
	}
	return ctx
}

// bound gives ctx an end: a deadline if there is none, and c.sends.stop. A call with a key always has
// a deadline, for which other calls with the key can wait.
func (c *call) bound(ctx context.Context) context.Context {
	switch _, ok := ctx.Deadline(); {
	case !c.request.isUpload() && (c.key != nil || !ok):
		ctx, c.sends.stop = context.WithTimeout(ctx, callTimeout)
	case c.key != nil && !ok:
		ctx, c.sends.stop = context.WithTimeout(ctx, uploadLease)
	default:
		ctx, c.sends.stop = context.WithCancel(ctx)
	}
	return ctx
}

// begin tells the observers of the start of a call, and returns the context for the call.
func (c *call) begin(ctx context.Context) context.Context {
	observers := c.settings.callObservers
	if len(observers) == 0 {
		return ctx
	}
	c.seen = Call{Method: c.request.method, Route: c.request.path, Effect: c.request.effect, Start: time.Now(), Idempotency: c.idempotency}
	return begin(ctx, observers, c.seen, &c.ends)
}

// done tells the observers of the end of the call.
func (c *call) done(err error) {
	if len(c.ends) == 0 {
		return
	}
	c.seen.Duration, c.seen.Idempotency = time.Since(c.seen.Start), c.idempotency
	c.seen.Attempts, c.seen.StatusCode, c.seen.Protocol, c.seen.Err = c.sent(), c.answer.StatusCode, c.answer.protocol, err
	if c.seen.Outcome = OutcomeOf(err); errors.Is(err, errPanicked) {
		c.seen.Outcome = c.outcome()
	}
	end(c.ends, c.seen)
}

const (
	// maxKey is the largest length of a key in bytes.
	maxKey = 256
	// uploadLease bounds an upload with a key and without a deadline.
	uploadLease = time.Hour
)

// checkKey reports an invalid key, and a key for a call that takes none.
func (c *call) checkKey() error {
	var rules checks
	key := c.key.name
	rules.that(key != "", "key", CodeRequired, "must not be empty")
	rules.that(len(key) <= maxKey, "key", CodeLength, fmt.Sprintf("must have at most %d bytes", maxKey))
	rules.that(utf8.ValidString(key) && !strings.ContainsFunc(key, isControl), "key", CodeUnsafe, "must not hold control characters or invalid UTF-8")
	rules.that(c.request.effect == Mutation, "key", CodeConflict, "is for mutations: a read needs none")
	rules.that(!c.request.signIn, "key", CodeConflict, "is not for a sign-in, which is begun anew")
	rules.that(c.carrier.doOnce != nil, "key", CodeConflict, "needs a client with WithIdempotency")
	return rules.err(c.request.method, c.request.path)
}
