package lending

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/lendingapi/lending-go/internal/opaque"
	"github.com/lendingapi/lending-go/internal/transport"
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

	key      *idempotencyKey     // of the mutation; nil for a call without one
	deadline *transport.Deadline // of a mutation with a key

	attempts int
	answer   Response      // the last there was
	parsed   parsedAnswer  // what it says
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

// request is a call before it is sent. A verb fills in the last two fields.
type request struct {
	path      string // as the interface prints it, with {placeholders}
	args      []string
	query     []param
	body      any     // the request record, or an *upload; nil for none
	also      checker // rules beside those of path, query and body; nil for none
	anonymous bool
	batch     int   // how many records it creates, perhaps not all of them; 0 if it is no batch
	token     Token // instead of the client's own
	signIn    bool  // its answer holds a token, which no layer may see

	// checkWith names the reads that tell whether a mutation has happened, for
	// [Error].CheckWith; "" if none does.
	checkWith string

	// tokenTells says that the token in an answer tells whether it is a success, and no other member.
	tokenTells bool
	// acceptance says why an answer is no success, if more is due than its type tells.
	acceptance func(*exchange) error
	// fits says why a result is not the record that was asked for; nil for any record.
	fits func(result any) *shapeError

	method string
	effect Effect
}

// streamed is a body that is made while it is sent.
type streamed interface {
	bind(ctx context.Context, hr *http.Request)
	isWhole() bool // the transport was given the last byte
}

// param is a query parameter. One with an empty value is left out, or refused if it is required.
type param struct {
	name, value string
	required    bool
}

// prepare refuses what must not be sent, with all the reasons, and returns the body.
func (r *request) prepare() ([]byte, error) {
	var c checks
	for i, arg := range r.args {
		switch message := whyMissing(arg); {
		case message != "":
			c.add(placeholders(r.path)[i], CodeRequired, message)
		case !isPathSafe(arg):
			c.add(placeholders(r.path)[i], CodeUnsafe, "must not hold slashes, control characters or be a dot segment")
		}
	}
	for _, p := range r.query {
		switch message := whyMissing(p.value); {
		case p.required && message != "":
			c.add(p.name, CodeRequired, message)
		case strings.ContainsFunc(p.value, isControl):
			c.add(p.name, CodeUnsafe, "must not hold control characters or invalid UTF-8")
		}
	}
	body, failed := r.prepareBody()
	c.fields = append(c.fields, failed...)
	return body, c.err(r.method, r.path)
}

// whyMissing says why value is none, and nothing if it is one.
func whyMissing(value string) string {
	switch value {
	case "":
		return "must not be empty"
	case zeroUUID:
		return "must not be the zero UUID"
	}
	return ""
}

// prepareBody returns the bytes of the request record, nil if there is none or if it
// is made while it is sent, and what is wrong with it.
func (r *request) prepareBody() ([]byte, []FieldError) {
	if r.body == nil && r.also == nil {
		return nil, nil
	}
	var c checks
	if r.also != nil {
		r.also.check(&c)
	}
	if v := reflect.ValueOf(r.body); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, c.fields // a nil pointer is no record
	}
	if body, ok := r.body.(checker); ok {
		body.check(&c)
	}
	if r.isUpload() {
		return nil, c.fields
	}
	body, err := encode(r.body)
	if failed, ok := errors.AsType[*ArgumentError](err); ok {
		for _, f := range failed.Fields {
			f.Field = cmp.Or(f.Field, "Body")
			if !slices.ContainsFunc(c.fields, func(known FieldError) bool { return known.Field == f.Field }) {
				c.fields = append(c.fields, f)
			}
		}
	}
	return body, c.fields
}

// public yields the parameters of the query that are sent and not secret.
func (r *request) public() iter.Seq[param] {
	return func(yield func(param) bool) {
		for _, p := range r.query {
			if p.name != secretParam && p.value != "" && !yield(p) {
				return
			}
		}
	}
}

func (r *request) encodeQuery() string {
	var b strings.Builder
	for _, p := range r.query {
		if p.value == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('&')
		} else {
			b.Grow(64)
		}
		b.WriteString(url.QueryEscape(p.name))
		b.WriteByte('=')
		b.WriteString(url.QueryEscape(p.value))
	}
	return b.String()
}

// placeholders returns the names in braces in a path template.
func placeholders(path string) []string {
	var names []string
	for {
		_, rest, found := strings.Cut(path, "{")
		if !found {
			return names
		}
		var name string
		name, path, _ = strings.Cut(rest, "}")
		names = append(names, name)
	}
}

// expand puts prefix in front of path, and args, escaped, in the place of the names in braces.
func expand(prefix, path string, args []string, escape func(string) string) string {
	var b strings.Builder
	b.Grow(len(prefix) + len(path) + len(zeroUUID)*len(args))
	b.WriteString(prefix)
	for _, arg := range args {
		before, rest, _ := strings.Cut(path, "{")
		_, path, _ = strings.Cut(rest, "}")
		b.WriteString(before)
		b.WriteString(escape(arg))
	}
	b.WriteString(path)
	return b.String()
}

// isPathSafe reports whether s stays one path segment: url.PathEscape leaves dot
// segments alone, and servers split on decoded slashes.
func isPathSafe(s string) bool {
	return s != "." && s != ".." && !strings.ContainsAny(s, `/\`) && !strings.ContainsFunc(s, isControl)
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f || r == '\uFFFD' }

// mediaJSON is the value of a header. It is shared, as headers are not changed in place.
var mediaJSON = []string{"application/json"}

// carrier carries the calls of a client. The services hold it, and it knows neither them nor
// the client.
type carrier struct{ hidden opaque.Value[*settings] }

func (c *carrier) settings() *settings { return c.hidden() }

// settings is how calls are carried.
type settings struct {
	base      url.URL
	userAgent []string // the value of the header
	http      http.Client
	fresh     http.RoundTripper // sends mutations and checks, each on a connection of its own
	foreign   bool              // the http.Client is the caller's: it may speak HTTP/2 and add headers
	tokens    TokenSource
	logger    *slog.Logger
	observers []func(context.Context, Attempt)

	callObservers []func(context.Context, Call) (context.Context, func(Call))

	// doOnce sends a mutation that has a key; nil if the client has no layer for keys.
	doOnce func(ctx context.Context, x *exchange, body []byte) (answered bool, err error)
}

// bind makes the HTTP request: URL, headers, token, body.
func (c *carrier) bind(ctx context.Context, r *request, token Token, body []byte) *http.Request {
	u := c.settings().base
	u.RawPath = expand(u.RawPath, r.path, r.args, url.PathEscape)
	if strings.Contains(u.RawPath, "%") {
		u.Path = expand(u.Path, r.path, r.args, func(s string) string { return s })
	} else {
		u.Path = u.RawPath
	}
	u.RawQuery = r.encodeQuery()
	hr := &http.Request{
		Method: r.method, URL: &u, Host: u.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Accept": mediaJSON, "User-Agent": c.settings().userAgent},
	}
	if !token.Value.IsZero() {
		hr.Header["Authorization"] = []string{"Bearer " + token.Value.Reveal()}
	}
	if body != nil {
		hr.Header["Content-Type"] = mediaJSON
		hr.Body, hr.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	if u, ok := r.body.(streamed); ok {
		hr.Header["Content-Type"] = mediaJSON
		u.bind(ctx, hr)
	}
	return hr.WithContext(ctx)
}

const (
	// maxKey is how long a key may be, in bytes.
	maxKey = 256
	// uploadLease bounds an upload that has a key and no deadline.
	uploadLease = time.Hour
)

type idempotencyContext struct{}

// idempotencyKey is what a context holds for the layer.
type idempotencyKey struct {
	name  string
	check bool // no key: a read with this context is a check of the layer
}

func keyIn(ctx context.Context) *idempotencyKey {
	key, _ := ctx.Value(idempotencyContext{}).(*idempotencyKey)
	return key
}

// withoutKey is for the calls on the way to a mutation.
func withoutKey(ctx context.Context) context.Context {
	return context.WithValue(ctx, idempotencyContext{}, (*idempotencyKey)(nil))
}

// takeKey takes the key of the mutation out of ctx, so that no call on the way has it. It
// marks the checks of a layer.
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

// isCheck reports whether the call is a read that tells what became of a mutation.
func (x *exchange) isCheck() bool { return x.call.Idempotency == idempotencyCheck }

// checkKey refuses a key that is none, and a key where there can be none.
func (x *exchange) checkKey() error {
	var c checks
	key := x.key.name
	c.that(key != "", "key", CodeRequired, "must not be empty")
	c.that(len(key) <= maxKey, "key", CodeLength, fmt.Sprintf("must have at most %d bytes", maxKey))
	c.that(utf8.ValidString(key) && !strings.ContainsFunc(key, isControl), "key", CodeUnsafe, "must not hold control characters or invalid UTF-8")
	c.that(x.request.effect == Mutation, "key", CodeConflict, "is for mutations: a read needs none")
	c.that(!x.request.signIn, "key", CodeConflict, "is not for a sign-in, which is begun anew")
	c.that(x.client.settings().doOnce != nil, "key", CodeConflict, "needs a client with WithIdempotency")
	return c.err(x.request.method, x.request.path)
}

// isUpload reports whether the body of the request is made while it is sent.
func (r *request) isUpload() bool {
	_, ok := r.body.(streamed)
	return ok
}

// secretParam is the one parameter of a query that is secret.
const secretParam = "ssn"

// What observers see in [Call].Idempotency that this package knows itself.
const (
	idempotencyCheck = "check" // a read that a layer makes
	idempotencySent  = "sent"  // a mutation with a key that a layer sends
)

// nothing is the answer of routes that answer without a body.
type nothing struct{}
