package lendingtest

import (
	"slices"
	"sync"
)

// Event is an event for watchers. Exactly one field is set.
type Event struct {
	Request  *Request  // answered, just before the caller receives the response
	Sent     *Sent     // a code or link was sent
	Delivery *Delivery // a webhook was posted, or posting failed
	Late     *Request  // executed after its caller had gone: [Fault].Late
}

// watchers are the functions that receive events.
type watchers struct {
	mu       sync.Mutex
	watching []*watcher // in order of Watch and On
}

// watcher receives all events, or the runs of routes.
type watcher struct {
	event func(Event)
	ran   func(Request)
}

func (w *watchers) add(own *watcher) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watching = append(slices.Clip(w.watching), own)
}

func (w *watchers) remove(which func(*watcher) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watching = slices.DeleteFunc(slices.Clone(w.watching), which)
}

func (w *watchers) all() []*watcher {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.watching
}

// Watch calls f for every event until the caller calls stop. f runs in the goroutine of the
// request or delivery, without a lock, so f may call the service.
func (w *watchers) Watch(f func(Event)) (stop func()) {
	own := &watcher{event: f}
	w.add(own)
	return func() { w.remove(func(other *watcher) bool { return other == own }) }
}

// On calls f each time that a route has run, until Reset. f runs before the caller has the
// response, without a lock, so f may call the service.
func (w *watchers) On(route string, f func(Request)) {
	mustRoute(route)
	w.add(&watcher{ran: func(r Request) {
		if r.Route == route {
			f(r)
		}
	}})
}

func (w *watchers) notify(e Event) {
	for _, own := range w.all() {
		if own.event != nil {
			own.event(e)
		}
	}
}

func (w *watchers) fire(r Request) {
	for _, own := range w.all() {
		if own.ran != nil {
			own.ran(r)
		}
	}
}
