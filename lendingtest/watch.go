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
	watching []*func(Event) // in order of Watch
}

// Watch calls f for every event until the caller calls stop. f runs in the goroutine of the
// request or delivery, without a lock, so f may call the service.
func (w *watchers) Watch(f func(Event)) (stop func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watching = append(slices.Clip(w.watching), &f)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.watching = slices.DeleteFunc(slices.Clone(w.watching), func(other *func(Event)) bool { return other == &f })
	}
}

func (w *watchers) notify(e Event) {
	w.mu.Lock()
	all := w.watching
	w.mu.Unlock()
	for _, told := range all {
		(*told)(e)
	}
}
