package lending

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"time"

	"github.com/lendingapi/lending-go/internal/jsonsplit"
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
	bulk      bool  // creates several records, perhaps not all of them
	token     Token // instead of the client's own

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

// call checks the arguments, has the request sent, and decodes the answer: the
// status decides, then the content type, then the shape.
func call[T any](ctx context.Context, c *Client, r request) (T, error) {
	var result T
	if err := r.check(); err != nil {
		return result, err
	}
	if _, ok := ctx.Deadline(); !ok && !r.isUpload() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, callTimeout)
		defer cancel()
	}
	x, err := c.do(ctx, r)
	if into, ok := ctx.Value(captureKey{}).(*Response); ok && x != nil {
		*into = x.answer
	}
	if err == nil {
		err = x.failure()
	}
	if err == nil {
		err = x.lost(decodeAnswer(&x.answer, &result))
	}
	return result, err
}

// check refuses what must not be sent.
func (r *request) check() error {
	var c checks
	for i, arg := range r.args {
		switch {
		case arg == "" || arg == zeroUUID:
			c.add(placeholders(r.path)[i], CodeRequired, "must not be empty or all zero")
		case !isPathSafe(arg):
			c.add(placeholders(r.path)[i], CodeUnsafe, "must not hold slashes, control characters or be a dot segment")
		}
	}
	for _, p := range r.query {
		switch {
		case p.required && (p.value == "" || p.value == zeroUUID):
			c.add(p.name, CodeRequired, "must not be empty or all zero")
		case strings.ContainsFunc(p.value, isControl):
			c.add(p.name, CodeUnsafe, "must not hold control characters or invalid UTF-8")
		case (p.name == "skip" || p.name == "take") && !isCount(p.value):
			c.add(p.name, CodeRange, "must be from 0 to 2147483647")
		}
	}
	c.fields = append(c.fields, r.checkRecords()...)
	return c.err(r)
}

// checkRecords returns what is wrong with the records of the request.
func (r *request) checkRecords() []FieldError {
	if r.body == nil && r.also == nil {
		return nil
	}
	var c checks
	if body, ok := r.body.(checker); ok && r.hasBody() {
		body.check(&c)
	}
	if r.also != nil {
		r.also.check(&c)
	}
	return c.fields
}

// do sends the request with a token, and a read once more with a new token if the
// service does not accept the first. It is the only loop of ours; [exchange.repeat]
// holds the other, for reads.
func (c *Client) do(ctx context.Context, r request) (*exchange, error) {
	body, err := r.encodeBody()
	if err != nil {
		return nil, err
	}
	x := &exchange{client: c, request: r}
	for replayed := false; ; replayed = true {
		token, err := c.token(ctx, &x.request)
		if err != nil {
			return x, x.notSent(err)
		}
		if err := x.send(ctx, token, body); err != nil {
			return x, err
		}
		if x.answer.StatusCode != http.StatusUnauthorized || !c.drop(token) || r.effect == Mutation || replayed {
			return x, nil
		}
	}
}

// hasBody reports whether there is a request record: a nil pointer is none.
func (r *request) hasBody() bool {
	v := reflect.ValueOf(r.body)
	return v.IsValid() && (v.Kind() != reflect.Pointer || !v.IsNil())
}

// encodeBody returns the bytes of the request record, nil if there is none or if it is
// made while it is sent.
func (r *request) encodeBody() ([]byte, error) {
	if r.isUpload() || !r.hasBody() {
		return nil, nil
	}
	body, err := encode(r.body)
	return body, r.named(err)
}

// named adds the route to an argument error.
func (r *request) named(err error) error {
	var argument *ArgumentError
	if errors.As(err, &argument) {
		argument.Method, argument.Route = r.method, r.path
	}
	return err
}

// token returns the token for r, which is the zero Token for an anonymous route.
func (c *Client) token(ctx context.Context, r *request) (Token, error) {
	switch {
	case r.anonymous || !r.token.Value.IsZero():
		return r.token, nil
	case c.settings.tokens == nil:
		return Token{}, ErrSignInRequired
	}
	token, err := c.settings.tokens.Token(ctx)
	if err == nil && !isHeaderSafe(token.Value.Reveal()) {
		err = errBadToken
	}
	return token, err
}

// drop tells the token source that the service refused token, and reports whether
// the source can get another.
func (c *Client) drop(token Token) bool {
	source, ok := c.settings.tokens.(interface{ Invalidate(Token) })
	if !ok || token.Value.IsZero() {
		return false
	}
	source.Invalidate(token)
	return true
}

// bind makes the HTTP request: URL, headers, token, body.
func (c *Client) bind(ctx context.Context, r *request, token Token, body []byte) *http.Request {
	u := c.settings.base
	u.RawPath = expand(u.RawPath, r.path, r.args, url.PathEscape)
	if strings.Contains(u.RawPath, "%") {
		u.Path = expand(u.Path, r.path, r.args, func(s string) string { return s })
	} else {
		u.Path = u.RawPath
	}
	u.RawQuery = r.encodeQuery()
	hr := &http.Request{
		Method: r.method, URL: &u, Host: u.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Accept": mediaJSON, "User-Agent": c.settings.userAgent},
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
		u.bind(hr)
	}
	return hr.WithContext(ctx)
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
	errHTML     = errors.New("the answer is HTML, not JSON")
	errNotJSON  = errors.New("the answer is not JSON")
	errBadToken = errors.New("the token is empty or holds bytes that no header may hold")
)

// decodeAnswer decodes a success into result.
func decodeAnswer[T any](answer *Response, result *T) error {
	body := bytes.TrimSpace(bytes.TrimPrefix(answer.Body, utf8BOM))
	v := reflect.ValueOf(result).Elem()
	empty := len(body) == 0 || string(body) == "null"
	switch {
	case v.Type() == reflect.TypeFor[nothing]():
		return nil
	case empty && (v.Kind() == reflect.Slice || v.Kind() == reflect.String && len(body) == 0 && answer.StatusCode == http.StatusOK):
		return nil // an empty list, an empty string
	case empty:
		return ErrNoContent
	case mediaType(answer.Header) == "text/plain" && strings.IndexByte(`"{[`, body[0]) < 0 && v.Kind() != reflect.Bool:
		return decodePlainText(body, v)
	case !jsonsplit.Valid(body):
		return errNotJSON
	}
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	if err := decodeValue(newAnswerText(body), jsonsplit.Span{To: len(body)}, v); err != nil {
		*result = *new(T)
		return err
	}
	return nil
}

// decodePlainText decodes a string or an id that came without quotes.
func decodePlainText(body []byte, v reflect.Value) error {
	quoted, err := json.Marshal(string(body))
	if err != nil || json.Unmarshal(quoted, v.Addr().Interface()) != nil {
		return errNotJSON
	}
	return nil
}

func mediaType(header http.Header) string {
	media, _, _ := strings.Cut(header.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(media))
}
