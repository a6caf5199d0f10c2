package lendingtest

import (
	"bytes"
	"io"
	"net/http"
	"time"
)

// maxLate limits the mutations that wait for their late execution.
const maxLate = 1000

// lateCommands has the mutations whose callers have gone. Service.mu guards it.
type lateCommands struct {
	waiting int
	idle    chan struct{} // closed when none waits, nil if there is none
	forget  chan struct{} // closed when the waiting mutations are cancelled
}

// drop cancels the waiting mutations.
func (l *lateCommands) drop() {
	if l.forget != nil {
		close(l.forget)
		l.forget = nil
	}
}

// serveLate answers the caller and executes the mutation later.
func (s *Service) serveLate(c *call, rec *recorder, fault Fault, tooLarge bool) {
	if c.route.upload && !tooLarge { // the file must be read before its sender has gone
		file, err := io.ReadAll(c.r.Body)
		if err != nil {
			rec.abort() // not received completely
		}
		c.r.Body = io.NopCloser(bytes.NewReader(file))
	}
	forget, err := s.enterLate() // before the response: the caller may call Wait at once
	if err != nil {
		s.send(rec, c.route, s.refusal(err, c.r), 0)
		return
	}
	if forget != nil {
		defer func() { go s.executeLate(c, fault.Late, tooLarge, forget) }() // also after an abort, which is a panic
	}
	if !fault.wait(c.r.Context(), s.done) {
		rec.abort()
	}
	if fault.Status == 0 {
		rec.reset()
		return
	}
	s.send(rec, c.route, s.faultAnswer(fault, c.r), fault.CutBody)
}

// enterLate returns a channel that is closed when the mutation is cancelled. The channel is nil
// if the service is closed. If too many mutations wait, enterLate returns an error, because each
// keeps its body in memory.
func (s *Service) enterLate() (forget <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, nil
	case s.late.waiting >= maxLate:
		return nil, problemOf(http.StatusServiceUnavailable, "TooManyLate", "Too many mutations wait to be executed late.")
	}
	if s.late.forget == nil {
		s.late.forget = make(chan struct{})
	}
	if s.late.idle == nil {
		s.late.idle = make(chan struct{})
	}
	s.late.waiting++
	return s.late.forget, nil
}

// executeLate runs a mutation after d, unless the mutation is cancelled before.
func (s *Service) executeLate(c *call, d time.Duration, tooLarge bool, forget <-chan struct{}) {
	defer s.leaveLate()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-forget:
		return
	}
	_, _ = s.run(c, tooLarge) // no caller is left
	for _, event := range c.events {
		s.notify(event)
	}
	s.mu.Lock()
	e := c.entry.copy()
	s.mu.Unlock()
	s.notify(Event{Late: &e})
}

func (s *Service) leaveLate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.late.waiting--; s.late.waiting == 0 {
		close(s.late.idle)
		s.late.idle = nil
	}
}

// busy returns a channel that is closed when a running task has ended, or nil if no task runs.
func (s *Service) busy() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.late.idle != nil {
		return s.late.idle
	}
	return s.post.idle
}
