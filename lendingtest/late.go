package lendingtest

import (
	"net/http"
	"sync"
	"time"

	"github.com/lendingapi/lending-go/lendingtest/internal/rules"
)

// maxLate limits the mutations that wait for their late execution, because each keeps its body in
// memory.
const maxLate = 1000

var errTooManyLate = rules.Refuse(http.StatusServiceUnavailable, "TooManyLate", "Too many mutations wait to be executed late.")

// lateRuns has the mutations whose callers have gone.
type lateRuns struct {
	mu      sync.Mutex
	waiting int
	idle    chan struct{} // closed when none waits, nil if there is none
	forget  chan struct{} // closed when the waiting mutations are cancelled
	closed  bool          // no mutation waits any more
}

// drop cancels the waiting mutations, with closed also those to come.
func (l *lateRuns) drop(closed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = l.closed || closed
	if l.forget != nil {
		close(l.forget)
		l.forget = nil
	}
}

// reserve makes room for a mutation. The result starts the mutation, which runs after d unless it
// is cancelled before.
func (l *lateRuns) reserve(d time.Duration, run func()) (start func(), refused *rules.Problem) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return func() {}, nil
	case l.waiting >= maxLate:
		return nil, errTooManyLate
	}
	if l.forget == nil {
		l.forget = make(chan struct{})
	}
	if l.idle == nil {
		l.idle = make(chan struct{})
	}
	l.waiting++
	forget := l.forget
	return func() {
		go func() {
			defer l.leave()
			timer := time.NewTimer(d)
			defer timer.Stop()
			select {
			case <-timer.C:
				run()
			case <-forget:
			}
		}()
	}, nil
}

func (l *lateRuns) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting--; l.waiting == 0 {
		close(l.idle)
		l.idle = nil
	}
}

// busy returns a channel that is closed when no mutation waits, or nil if none does.
func (l *lateRuns) busy() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.idle
}
