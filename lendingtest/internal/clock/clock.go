// Package clock is the clock of a service, which tests move, with the jobs that wait for a time.
package clock

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Clock adds to a base, for example time.Now.
type Clock struct {
	base func() time.Time

	mu     sync.Mutex
	offset time.Duration
	jobs   []*job // by time
	closed bool
}

// job runs when the clock reaches its time.
type job struct {
	at    time.Time
	run   func(at time.Time)
	timer *time.Timer
}

// New returns a clock with the time of base.
func New(base func() time.Time) *Clock { return &Clock{base: base} }

// Now returns the time in UTC.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now()
}

func (c *Clock) now() time.Time { return c.base().UTC().Add(c.offset) }

// Advance moves the clock, also back, and runs the jobs that become due. It panics if the clock
// cannot show the time.
func (c *Clock) Advance(d time.Duration) {
	c.move(d)
	c.CatchUp()
}

func (c *Clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	then := c.now().Add(d)
	if moved := c.offset + d; then.Year() < 1970 || then.Year() > 9999 || (d > 0) != (moved > c.offset) {
		panic(fmt.Sprintf("lendingtest: the clock cannot move this far, to the year %d", then.Year()))
	}
	c.offset += d
}

// Reset makes the clock show the base, and forgets all jobs.
func (c *Clock) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop()
	c.offset = 0
}

// At runs a function once the clock reaches t. A timer runs the function, or an earlier call of
// Advance or CatchUp.
func (c *Clock) At(t time.Time, run func(at time.Time)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	j := &job{at: t, run: run, timer: time.AfterFunc(t.Sub(c.now()), c.CatchUp)}
	c.jobs = append(c.jobs, j)
	slices.SortStableFunc(c.jobs, func(a, b *job) int { return a.at.Compare(b.at) })
}

// CatchUp runs all due jobs in order.
func (c *Clock) CatchUp() {
	for {
		c.mu.Lock()
		if len(c.jobs) == 0 || c.jobs[0].at.After(c.now()) {
			c.mu.Unlock()
			return
		}
		j := c.jobs[0]
		c.jobs = c.jobs[1:]
		j.timer.Stop()
		c.mu.Unlock()
		j.run(j.at)
	}
}

// Close forgets all jobs, also those to come.
func (c *Clock) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.drop()
}

func (c *Clock) drop() {
	for _, j := range c.jobs {
		j.timer.Stop()
	}
	c.jobs = nil
}

// Pause waits in real time, and returns false if ctx ends or closed is closed first.
func Pause(ctx context.Context, d time.Duration, closed <-chan struct{}) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-closed:
	}
	return false
}
