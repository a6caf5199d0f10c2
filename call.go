package lending

import (
	"context"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/lendingapi/lending-go/internal/jsonsplit"
)

// callTimeout bounds a call whose context has no deadline.
const callTimeout = 2 * time.Minute

// nothing is the answer of routes that answer without a body.
type nothing struct{}

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

// decodeAnswer decodes a success into result.
func decodeAnswer[T any](x *exchange, result *T) error {
	body, valid := x.said.body, x.said.valid
	v := reflect.ValueOf(result).Elem()
	plain := mediaType(x.answer.Header) == "text/plain" && len(body) > 0 && body[0] != '"'
	empty := len(body) == 0 || string(body) == "null"
	switch {
	case v.Type() == reflect.TypeFor[nothing]():
		return nil
	case plain && v.Kind() == reflect.String:
		v.SetString(string(x.said.text)) // as it came, white space too
		return nil
	case empty && (v.Kind() == reflect.Slice && x.request.batch == 0 || v.Kind() == reflect.String && len(body) == 0 && x.answer.StatusCode == http.StatusOK):
		return nil // an empty list, an empty string
	case empty && v.Type() == recordType:
		return nil // whatever the answer of a route may be that nobody published
	case empty:
		return ErrNoContent
	case plain && (v.Type() == reflect.TypeFor[Secret]() || v.Kind() == reflect.Array):
		body = []byte(strconv.Quote(string(body))) // a token or an id without quotes
		valid = jsonsplit.Valid(body)
	}
	if !valid {
		return errNotJSON
	}
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	text := newAnswerText(body)
	(*text).checked, (*text).command = true, x.request.effect == Mutation
	err := decodeValue(text, 0, v)
	if err == nil && v.Kind() == reflect.Array && v.IsZero() {
		err = &shapeError{want: "a UUID", got: "the zero UUID"}
	}
	if err == nil {
		err = lacks(*result)
	}
	if err == nil {
		err = isAnother(*result, x.request.loan)
	}
	if err != nil {
		*result = *new(T)
		return err
	}
	return nil
}

func mediaType(header http.Header) string {
	media, _, _ := strings.Cut(header.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(media))
}
