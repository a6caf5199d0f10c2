// Package shapes learns which names and types the records of the service have, from the
// responses of a real service. The interface leaves many records open: their names are
// known only from responses. The package keeps names, types and counts, and never a value.
//
// [Seen] learns from responses and names the changes between two of them. [Watch] follows a
// client in production and reports each change once. Give the JSON of a Seen to
// lendingtest.WithShapes, and the fake has the fields of the real service:
//
//	watcher := shapes.Watch(nil, func(change string) { slog.Warn("lending", "change", change) })
//	client, err := lending.New(address, credentials, lending.WithCallObserver(watcher.Observe))
//
//	learned, err := json.Marshal(watcher.Seen())
//
// The members of an object can be data, for example one for each e-mail address. Members
// whose names have many digits, or are no identifiers, count as data, and so do members
// that are all alike if none of them is in most of the objects. Their names are not kept.
// A name such as "ada" looks like a field: read what was learnt before others see it.
package shapes

import (
	"bytes"
	"encoding/json"
	"regexp"
)

// Seen is what was learnt about each route, by its method and path template, for example
// "GET /api/Loan/get-loan/{loanId}". Its JSON can be kept and read again.
type Seen map[string]*Shape

// template is a route without a value in its path.
var template = regexp.MustCompile(`^[A-Z]+ (/[A-Za-z][A-Za-z-]*|/\{[A-Za-z]+\})+$`)

// Learn adds what the body of a successful response shows. It returns false, and learns
// nothing, if the body is no JSON or the route is no template.
func (s Seen) Learn(route string, body []byte) bool {
	shape := read(route, body)
	if shape == nil {
		return false
	}
	s[route] = merge(s[route], shape)
	return true
}

// read returns nil if there is nothing to learn from.
func read(route string, body []byte) *Shape {
	body = bytes.TrimSpace(bytes.TrimPrefix(body, []byte("\ufeff"))) // hosts of .NET begin with that
	if !template.MatchString(route) || !json.Valid(body) {
		return nil
	}
	return shapeOf(body, 0)
}

// Merge returns both together. Neither changes but for names that are data, which both forget.
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

// MarshalJSON writes all that was learnt, without names that are data.
func (s Seen) MarshalJSON() ([]byte, error) { return json.Marshal(map[string]*Shape(s.Merge(nil))) }
