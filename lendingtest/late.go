package lendingtest

import (
	"context"
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
	idle    chan struct{} // closed when none waits
	forget  func()
	kept    context.Context //nolint:containedctx // of the waiting mutations: it ends with the next clear
}

// clear cancels the waiting mutations.
func (l *lateRuns) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.forget != nil {
		l.forget()
	}
	l.kept, l.forget = context.WithCancel(context.Background())
}

// reserve makes room for a mutation. The result starts the mutation, which runs after d unless it
// is cancelled before.
func (l *lateRuns) reserve(d time.Duration, closed <-chan struct{}, run func()) (start func(), refused *rules.Problem) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting >= maxLate {
		return nil, errTooManyLate
	}
	if l.waiting == 0 {
		l.idle = make(chan struct{})
	}
	l.waiting++
	kept := l.kept
	return func() {
		go func() {
			defer l.leave()
			if pause(kept, d, closed) {
				run()
			}
		}()
	}, nil
}

func (l *lateRuns) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting--; l.waiting == 0 {
		close(l.idle)
	}
}

// busy returns a channel that is closed when no mutation waits, or nil if none does.
func (l *lateRuns) busy() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting == 0 {
		return nil
	}
	return l.idle
}
