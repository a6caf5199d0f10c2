package lending

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// build checks the request, and makes its address and its payload. The error has every broken
// rule of the request.
func (x *exchange) build() (err error) {
	x.payload, err = x.request.prepare(x.key != nil)
	if err == nil && x.key != nil {
		err = x.checkKey()
	}
	if err == nil {
		x.address = x.request.address(x.client.settings().base)
	}
	return err
}

// prepare returns the body, or all broken rules of the request. With hasKey it withholds the
// error of missing secrets.
func (r *request) prepare(hasKey bool) ([]byte, error) {
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
		case p.required && message != "" && p.name == secretParam:
			c.secret(false, p.name)
		case p.required && message != "":
			c.add(p.name, CodeRequired, message)
		case strings.ContainsFunc(p.value, isControl):
			c.add(p.name, CodeUnsafe, "must not hold control characters or invalid UTF-8")
		}
	}
	body, of := r.prepareBody()
	c.fields, c.secrets = append(c.fields, of.fields...), c.secrets+of.secrets
	err := c.err(r.method, r.path)
	if hasKey && c.secrets == len(c.fields) {
		r.withheld, err = err, nil
	}
	return body, err
}

// whyMissing returns why value counts as missing, "" if it does not.
func whyMissing(value string) string {
	switch value {
	case "":
		return "must not be empty"
	case zeroUUID:
		return "must not be the zero UUID"
	}
	return ""
}

// prepareBody returns the bytes of the request record and its broken rules. The bytes are nil
// without a record, and for a streamed body.
func (r *request) prepareBody() (_ []byte, broken checks) {
	if r.body == nil && r.also == nil {
		return nil, checks{}
	}
	var c checks
	if r.also != nil {
		r.also.check(&c)
	}
	if v := reflect.ValueOf(r.body); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, c // a nil pointer is no record
	}
	if body, ok := r.body.(checker); ok {
		body.check(&c)
	}
	if r.isUpload() {
		return nil, c
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
	return body, c
}

// public yields the query parameters that are neither empty nor secret.
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
	var parts []string
	for _, p := range r.query {
		if p.value != "" {
			parts = append(parts, url.QueryEscape(p.name)+"="+url.QueryEscape(p.value))
		}
	}
	return strings.Join(parts, "&")
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

// address returns the URL of the request below base.
func (r *request) address(base url.URL) url.URL {
	base.RawPath = expand(base.RawPath, r.path, r.args)
	base.Path = base.RawPath
	if strings.Contains(base.RawPath, "%") {
		base.Path, _ = url.PathUnescape(base.RawPath) // cannot fail: every part is escaped
	}
	base.RawQuery = r.encodeQuery()
	return base
}

// expand returns prefix and path, with the escaped args in place of the names in braces.
func expand(prefix, path string, args []string) string {
	var b strings.Builder
	b.Grow(len(prefix) + len(path) + len(zeroUUID)*len(args))
	b.WriteString(prefix)
	for _, arg := range args {
		before, rest, _ := strings.Cut(path, "{")
		_, path, _ = strings.Cut(rest, "}")
		b.WriteString(before)
		b.WriteString(url.PathEscape(arg))
	}
	b.WriteString(path)
	return b.String()
}

// isPathSafe reports whether s stays one path segment: url.PathEscape leaves dot segments alone,
// and servers split on decoded slashes.
func isPathSafe(s string) bool {
	return s != "." && s != ".." && !strings.ContainsAny(s, `/\`) && !strings.ContainsFunc(s, isControl)
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f || r == '\uFFFD' }

const (
	// maxKey is the largest length of a key in bytes.
	maxKey = 256
	// uploadLease bounds an upload with a key and without a deadline.
	uploadLease = time.Hour
)

// isCheck reports whether the call is a read that checks a mutation.
func (x *exchange) isCheck() bool { return x.call.Idempotency == idempotencyCheck }

// checkKey reports an invalid key, and a key for a call that takes none.
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

// secretParam is the only secret query parameter.
const secretParam = "ssn"
