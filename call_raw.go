package lending

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// RawRequest is a call of a route without a method in this package: see [Client.Do].
//
// Path appears in errors and logs. Args, Query and Body do not.
type RawRequest struct {
	Effect    Effect     // the zero Effect is Mutation: set Read for a call that may be repeated
	Method    string     // for example "GET"
	Path      string     // template below the base URL, for example "/api/Group/get-thing/{thingId}"
	Args      []string   // the values for the names in braces, in order
	Query     url.Values // sent in the order of the names; a parameter with an empty value is left out
	Body      any        // a request record of this package, or a value that marshals to JSON; nil for none
	Anonymous bool       // send no token
}

var rawMethods = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

func (r RawRequest) check(c *checks) {
	c.that(slices.Contains(rawMethods, r.Method), "Method", CodeFormat, "must be GET, POST, PUT, PATCH or DELETE")
	c.that(isTemplate(r.Path), "Path", CodeFormat, "must be a template: /segments of letters, digits and - _ . ~, or of one {name}")
	c.that(len(placeholders(r.Path)) == len(r.Args), "Args", CodeFormat, "must be as many as the names in braces in Path")
}

// isTemplate reports whether path means the same to every server: no empty segments, no dot
// segments, no escapes.
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
