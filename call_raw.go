package lending

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// RawRequest is a call of a route that this package has no method for: see
// [Client.Do].
//
// Path appears in errors and logs. Args, Query and Body do not.
type RawRequest struct {
	Effect    Effect     // the zero Effect is Mutation: say Read for what may be repeated
	Method    string     // for example "GET"
	Path      string     // template below the base URL, for example "/api/Group/get-thing/{thingId}"
	Args      []string   // the values for the names in braces, in order
	Query     url.Values // sent in the order of the names; a parameter with an empty value is left out
	Body      any        // a request record of this package, or what marshals to JSON; nil for none
	Anonymous bool       // send no token
}

var rawMethods = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

func (r RawRequest) check(c *checks) {
	c.that(slices.Contains(rawMethods, r.Method), "Method", CodeFormat, "must be GET, POST, PUT, PATCH or DELETE")
	c.that(isTemplate(r.Path), "Path", CodeFormat, "must be a template: /segments of letters, digits and - _ . ~, or of one {name}")
	c.that(len(placeholders(r.Path)) == len(r.Args), "Args", CodeFormat, "must be as many as the names in braces in Path")
}

// isTemplate reports whether path means the same to every server: no empty or dot
// segments, nothing escaped.
func isTemplate(path string) bool {
	segments := strings.Split(path, "/")
	for _, segment := range segments[1:] {
		name, opened := strings.CutPrefix(segment, "{")
		name, closed := strings.CutSuffix(name, "}")
		odd := strings.ContainsFunc(name, func(r rune) bool {
			return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-_.~", r))
		})
		if name == "" || odd || opened != closed || name == "." || name == ".." {
			return false
		}
	}
	return segments[0] == "" && len(segments) > 1
}

// Do calls a route that this package has no method for, with the client's token,
// checks, errors, redaction and limits. Say whether it changes something: a [Read] is
// repeated after transient failures, a [Mutation] is sent at most once. Which read
// tells after an unknown outcome is for the caller to know.
//
// The Record that it returns holds whatever JSON the service answered, and nothing
// where it answered without content. Which of it is a success is for the caller to know
// too: {"success":false} is no error here.
//
// The interface mentions routes that it does not show, and says of them: the routes
// that look up customers of an invoice take any number of records at a time, answer
// 400 where they find nothing, which [IsNotFound] reports, and answer with one envelope
// although an array is declared. Of the reports for partners it says nothing but that
// they exist.
func (c *Client) Do(ctx context.Context, raw RawRequest) (*Record, error) {
	r := request{method: raw.Method, path: raw.Path, args: raw.Args, body: raw.Body, effect: raw.Effect, anonymous: raw.Anonymous}
	var failed checks
	raw.check(&failed)
	if !isTemplate(raw.Path) {
		r.path = "" // it may hold values, which errors do not show
	}
	if !slices.Contains(rawMethods, raw.Method) {
		r.method = ""
	}
	if err := failed.err(&r); err != nil {
		captured(ctx)
		x := &exchange{client: c.carrier, request: r}
		defer func() { x.end(err) }()
		x.begin(ctx)
		return nil, err
	}
	for name, values := range raw.Query {
		for _, value := range values {
			r.query = append(r.query, param{name, value, false})
		}
	}
	slices.SortStableFunc(r.query, func(a, b param) int { return strings.Compare(a.name, b.name) })
	r.signIn = strings.HasPrefix(strings.ToLower(r.path), "/api/authenication/")
	record, err := call[Record](ctx, c.carrier, r)
	if err != nil {
		return nil, err
	}
	return &record, nil
}
