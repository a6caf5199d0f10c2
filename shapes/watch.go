package shapes

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/lendingapi/lending-go"
)

// The limits of a Watcher. A larger response is ignored.
const (
	maxRoutes = 200
	maxPlaces = 2_000   // per route
	maxBody   = 1 << 20 // bytes
)

// Watcher follows the responses of a client. Its methods are safe for concurrent use.
type Watcher struct {
	report func(change string)

	mu   sync.Mutex
	seen Seen
}

// Watch returns a watcher with the shapes in known, which may be nil. Pass its Observe to
// lending.WithObserver. The watcher calls report once for each change, in the goroutine of
// the call:
//
//	GET /api/Loan/get-loan/{loanId} .rate: was number, is string
//
// A change has names and types, and never a value. The first response of a route is not a
// change. A panic of report is logged with its type. A watcher keeps up to 200 routes with 2,000
// places each, and ignores responses above 1 MiB.
func Watch(known Seen, report func(change string)) *Watcher {
	return &Watcher{report: report, seen: known.Merge(nil)}
}

// Observe is the function for lending.WithObserver.
func (w *Watcher) Observe(ctx context.Context, _ lending.Call) (context.Context, func(lending.Call)) {
	var response lending.Response
	return lending.CaptureResponse(ctx, &response), func(call lending.Call) {
		fresh := call.Idempotency == "" || call.Idempotency == "sent" || call.Idempotency == "check" // not a response from the idempotency log
		if !fresh || response.StatusCode/100 != 2 || len(response.Body) > maxBody {
			return
		}
		for _, change := range w.learn(call.Method+" "+call.Route, response.Body) {
			w.tell(change)
		}
	}
}

// tell reports a change. The mutation has happened: a panic of the report must not reach its caller.
func (w *Watcher) tell(change string) {
	defer func() {
		if v := recover(); v != nil {
			slog.Error("lending/shapes: the report of a change panicked", "panic", fmt.Sprintf("%T", v))
		}
	}()
	w.report(change)
}

// Seen returns everything learned so far, for the next Watch.
func (w *Watcher) Seen() Seen {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen.Merge(nil)
}

// learn adds a response and returns the changes.
func (w *Watcher) learn(route string, body []byte) (changes []string) {
	shape := read(route, body)
	if shape == nil {
		return nil
	}
	shape.forgetData()
	w.mu.Lock()
	defer w.mu.Unlock()
	known := w.seen[route]
	switch {
	case known == nil && len(w.seen) >= maxRoutes:
		return nil
	case known != nil && known.covers(shape):
		merge(known, shape)
		return nil
	}
	both := merge(merge(nil, known), shape)
	both.forgetData()
	if len(both.places("", false)) > maxPlaces {
		return nil
	}
	w.seen[route] = both
	if known == nil {
		return nil
	}
	return differences(route, known, shape, both)
}

// covers reports whether other has nothing new.
func (s *Shape) covers(other *Shape) bool {
	switch {
	case other == nil:
		return true
	case s == nil:
		return false
	}
	for kind := range other.Kinds {
		if s.Kinds[kind] == 0 {
			return false
		}
	}
	for name, field := range other.Fields {
		known := s.Fields[name]
		if s.Map {
			known = s.Values
		}
		if !known.covers(field) {
			return false
		}
	}
	for name, field := range s.Fields {
		always := field.Count() == s.Kinds["object"]
		if always && other.Kinds["object"] > other.Fields[name].Count() {
			return false
		}
	}
	for text := range other.Words {
		if s.Words[text] == 0 && s.Words[noWords] == 0 {
			return false // no change, but worth keeping
		}
	}
	for end := range other.Times {
		if s.Times[end] == 0 && len(s.Times) < maxWords {
			return false
		}
	}
	return s.Values.covers(other.Values) && s.Items.covers(other.Items)
}
