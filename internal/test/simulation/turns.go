// Package simulation runs processes that share a store and a service on the fake time of
// testing/synctest. A single goroutine runs at a time, so a seed determines the whole run.
package simulation

import (
	"slices"
	"strings"
	"sync"
	"testing/synctest"
)

// Turns lets a single goroutine of a bubble run at a time. Goroutines that become ready at the
// same instant run in the order of their names; synctest itself starts them in any order.
//
// A goroutine asks for a turn before each step that others can observe. After the step the
// goroutine runs until it waits for time, for another goroutine or for its next turn.
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

// NewTurns starts to give out turns in the current bubble.
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

// End lets all goroutines run freely.
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

// begin lets the first waiting goroutine run.
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
