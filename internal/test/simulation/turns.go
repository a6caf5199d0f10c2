// Package simulation runs processes that share a store and a service on the fake time of
// testing/synctest, one goroutine at a time, so that a seed means one run.
package simulation

import (
	"slices"
	"strings"
	"sync"
	"testing/synctest"
)

// Turns lets one goroutine of a bubble go on at a time. What becomes ready in one instant is
// ordered by name: synctest itself starts goroutines of one instant in any order.
//
// A goroutine asks for a turn before each step that others can see. Between two steps it runs
// until it waits for something: for time, for another goroutine, or for its next turn.
type Turns struct {
	mu      sync.Mutex
	waiting []turn
	ended   bool
	arrived chan struct{}
	end     chan struct{}
}

type turn struct {
	name  string
	begin chan struct{}
}

// NewTurns starts to give out turns in the bubble that it is called in.
func NewTurns() *Turns {
	t := &Turns{arrived: make(chan struct{}, 1), end: make(chan struct{})}
	go t.give()
	return t
}

// Take waits for a turn.
func (t *Turns) Take(name string) {
	t.mu.Lock()
	if t.ended {
		t.mu.Unlock()
		return
	}
	mine := turn{name, make(chan struct{})}
	t.waiting = append(t.waiting, mine)
	t.mu.Unlock()
	select {
	case t.arrived <- struct{}{}:
	default:
	}
	<-mine.begin
}

// End lets all goroutines go on as they like.
func (t *Turns) End() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	for _, next := range t.waiting {
		close(next.begin)
	}
	t.waiting = nil
	close(t.end)
}

func (t *Turns) give() {
	for {
		select {
		case <-t.end:
			return
		case <-t.arrived:
		}
		for again := true; again; {
			synctest.Wait() // until every other goroutine waits
			again = t.begin()
		}
	}
}

// begin lets the first of those who wait go on.
func (t *Turns) begin() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) == 0 {
		return false
	}
	first := slices.MinFunc(t.waiting, func(a, b turn) int { return strings.Compare(a.name, b.name) })
	t.waiting = slices.DeleteFunc(t.waiting, func(other turn) bool { return other == first })
	close(first.begin)
	return true
}
