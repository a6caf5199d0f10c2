// Package shapes learns the field names and types of the service's records from the responses of
// a real service, because the interface does not publish all of them. The package keeps names,
// types and counts. Of the values it keeps at most 20 short words of a field that is called a
// status, type, kind, stage, phase, frequency or category, and of a time the number of digits
// and the offset.
//
// [Seen] learns from responses and compares two sets of responses. [Watch] follows a client in
// production and reports each change once. A probe.Service with the Seen is a file for lendingtest.WithService,
// with which the fake has the fields of the real service:
//
//	watcher := shapes.Watch(nil, func(change string) { slog.Warn("lending", "change", change) })
//	client, err := lending.New(address, credentials, lending.WithObserver(watcher.Observe, nil))
//
//	err = (&probe.Service{Shapes: watcher.Seen()}).Save("service.json")
//
// The names of an object can be data, for example e-mail addresses. The package treats a name as
// data if it is an address, has more than five digits, has no letters or is words that begin with a
// capital letter, and all names of an object if every second one is data, if there are very many, or if
// all members are alike and none of them is in most of the objects.
// It does not keep these names. A name such as "ada" looks like a field, so check the result before
// you publish it.
package shapes

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"

	"github.com/lendingapi/lending-go/internal/jsonsplit"
)

// Seen has the shape of the responses of each route, by method and path template, for example
// "GET /api/Loan/get-loan/{loanId}". A Seen can be saved as JSON and loaded again.
type Seen map[string]*Shape

// template is a route without a value in its path.
var template = regexp.MustCompile(`^[A-Z]+ (/[A-Za-z][A-Za-z-]*|/\{[A-Za-z]+\})+$`)

// Learn adds the body of a successful response. Learn returns false and adds nothing if the body
// is not JSON or the route is not a template.
func (s Seen) Learn(route string, body []byte) bool {
	shape := read(route, body)
	if shape == nil {
		return false
	}
	s[route] = merge(s[route], shape)
	return true
}

// read returns nil if the response has nothing to learn.
func read(route string, body []byte) *Shape {
	body = bytes.TrimSpace(bytes.TrimPrefix(body, []byte("\ufeff"))) // .NET hosts may send a byte order mark
	if !template.MatchString(route) || !jsonsplit.Valid(body) {
		return nil
	}
	s := newShape()
	name, _, _ := strings.Cut(route, "/{") // ends with the last word of the route, for example application-status
	s.add([]byte(name), body, 0, 0)
	return s
}

// Merge returns the union of both. Neither changes, except that both forget names that are data.
func (s Seen) Merge(other Seen) Seen {
	both := Seen{}
	for _, part := range []Seen{s, other} {
		for route, shape := range part {
			shape.forgetData()
			both[route] = merge(both[route], shape)
			both[route].forgetData()
		}
	}
	return both
}

// MarshalJSON encodes all shapes, without names that are data.
func (s Seen) MarshalJSON() ([]byte, error) { return json.Marshal(map[string]*Shape(s.Merge(nil))) }
