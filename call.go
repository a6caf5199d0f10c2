package lending

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lendingapi/lending-go/internal/jsonsplit"
	"github.com/lendingapi/lending-go/internal/redact"
)

// Effect says what a route does when it is called, which decides whether it may be
// called again. The HTTP method does not say it: some GETs of the service change state.
type Effect int

const (
	// Mutation changes something: it is sent at most once.
	Mutation Effect = iota
	// Read changes nothing: it is repeated after transient failures.
	Read
)

// String returns "mutation" or "read".
func (e Effect) String() string {
	if e == Read {
		return "read"
	}
	return "mutation"
}

// callTimeout bounds a call whose context has no deadline.
const callTimeout = 2 * time.Minute

// request is a call before it is sent. A verb fills in the last two fields.
type request struct {
	path      string // as the interface prints it, with {placeholders}
	args      []string
	query     []param
	body      any     // the request record, or an *upload; nil for none
	also      checker // rules beside those of path, query and body; nil for none
	anonymous bool
	loan      LoanID // whose record the answer must be; the zero LoanID for any answer
	batch     int    // how many records it creates, perhaps not all of them; 0 if it is no batch
	token     Token  // instead of the client's own
	signIn    bool   // its answer holds a token, which no layer may see

	// checkWith names the reads that tell whether a mutation has happened, for
	// [Error].CheckWith; "" if none does.
	checkWith string

	// proof says why a success is none, if more is due than its type tells; nil for no more.
	proof func(*exchange) error

	method string
	effect Effect
}

// param is a query parameter. One with an empty value is left out, or refused if it is required.
type param struct {
	name, value string
	required    bool
}

// nothing is the answer of routes that answer without a body.
type nothing struct{}

// get calls a route that changes nothing. It may be repeated.
func get[T any](ctx context.Context, c *Client, r request) (T, error) {
	r.method, r.effect = http.MethodGet, Read
	return call[T](ctx, c, r)
}

// command calls a route that is a GET and changes state all the same. It is sent at most once.
func command[T any](ctx context.Context, c *Client, r request) (T, error) {
	r.method, r.effect = http.MethodGet, Mutation
	return call[T](ctx, c, r)
}

// post calls a route that is a POST. It is sent at most once.
func post[T any](ctx context.Context, c *Client, r request) (T, error) {
	r.method, r.effect = http.MethodPost, Mutation
	return call[T](ctx, c, r)
}

// tell posts to a route whose answer nobody published. It is sent at most once.
func tell(ctx context.Context, c *Client, r request) error {
	_, err := post[nothing](ctx, c, r)
	return err
}

// call makes the call that r describes, and tells those who observe it.
func call[T any](ctx context.Context, c *Client, r request) (result T, err error) {
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
		return x.doOnce(ctx, body)
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

// prepare refuses what must not be sent, with all the reasons, and returns the body.
func (r *request) prepare() ([]byte, error) {
	var c checks
	for i, arg := range r.args {
		switch message := absent(arg); {
		case message != "":
			c.add(placeholders(r.path)[i], CodeRequired, message)
		case !isPathSafe(arg):
			c.add(placeholders(r.path)[i], CodeUnsafe, "must not hold slashes, control characters or be a dot segment")
		}
	}
	for _, p := range r.query {
		switch message := absent(p.value); {
		case p.required && message != "":
			c.add(p.name, CodeRequired, message)
		case strings.ContainsFunc(p.value, isControl):
			c.add(p.name, CodeUnsafe, "must not hold control characters or invalid UTF-8")
		}
	}
	body, failed := r.prepareBody()
	c.fields = append(c.fields, failed...)
	return body, c.err(r)
}

// absent says why value is none, and nothing if it is one.
func absent(value string) string {
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

// token returns the token for r, which is the zero Token for an anonymous route.
func (c *Client) token(ctx context.Context, r *request) (Token, error) {
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
func (c *Client) drop(token Token) bool {
	source, ok := c.settings().tokens.(interface{ Invalidate(Token) })
	if !ok || token.Value.IsZero() {
		return false
	}
	source.Invalidate(token)
	return true
}

// bind makes the HTTP request: URL, headers, token, body.
func (c *Client) bind(ctx context.Context, r *request, token Token, body []byte) *http.Request {
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
	if u, ok := r.body.(*upload); ok {
		hr.Header["Content-Type"] = mediaJSON
		u.bind(ctx, hr)
	}
	return hr.WithContext(ctx)
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

// isHeaderSafe reports whether s can follow "Bearer " in a header.
func isHeaderSafe(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

// zeroUUID is the identifier that names nothing.
const zeroUUID = "00000000-0000-0000-0000-000000000000"

// mediaJSON is the value of a header. It is shared, as headers are not changed in place.
var mediaJSON = []string{"application/json"}

var utf8BOM = []byte("\xEF\xBB\xBF")

var (
	errHTML     error = redact.Text("the answer is HTML, not JSON")
	errNotJSON  error = redact.Text("the answer is not JSON")
	errBadToken error = redact.Text("the token is empty or holds bytes that no header may hold")
	errNoTokens       = hidden("the client has neither credentials nor another source of tokens", ErrSignInRequired)
)

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
