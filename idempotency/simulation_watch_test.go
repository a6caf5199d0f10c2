package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/lendingtest"
)

// What a schedule sees of its processes, in the order in which it takes effect, and what must
// hold.

func (s *schedule) note(c *caller, format string, args ...any) {
	s.traced.Lock()
	defer s.traced.Unlock()
	s.trace.line(c.String(), format, args...)
}

func (s *schedule) count(what string) {
	s.traced.Lock()
	defer s.traced.Unlock()
	s.counted[what]++
}

func (s *schedule) violate(kind string, c *caller, format string, args ...any) {
	s.traced.Lock()
	defer s.traced.Unlock()
	s.trace.violate(kind, c.String(), format, args...)
}

func (s *schedule) executions(m *simulated) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return m.executed
}

// begin notes that a caller begins a call.
func (c *caller) begin(m *simulated) {
	s := c.p.sched
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	c.key, c.number, c.repeats = m.key, fmt.Sprint(s.calls), m.repeats
	c.sends, c.reached, c.action = 0, false, ""
	if m.begun.IsZero() {
		m.begun = time.Now()
	}
}

// leaves checks the record of a send. Another process can end a mutation with SafeToRepeat in between.
func (s *schedule) leaves(c *caller) {
	entry, err := s.entries.Load(context.Background(), ":"+c.key)
	if c.sends++; c.sends > 1 {
		s.violate("sent twice in one call", c, "%s", c.key)
	}
	if err != nil || entry == nil || entry.State != store.Sent && !c.repeats {
		s.violate("sent and not written down", c, "%s: %v", c.key, err)
	}
}

// sendLate has a command executed within most from now.
func (s *schedule) sendLate(c *caller, what string, most time.Duration, send way) {
	late := time.Duration(c.random.Int64N(int64(max(most, 1))))
	c.note("%s will arrive %v later", what, late.Round(time.Millisecond))
	s.count("late execution")
	s.late.Go(func() {
		bubble.Elapse(late)
		_, _ = send(context.Background()) //nolint:bodyclose // it is in memory
	})
}

// executes holds what must hold when the service executes a command.
func (s *schedule) executes(r lendingtest.Request, late bool) {
	if late || !r.Executed {
		return
	}
	key := r.Header.Get(keyHeader)
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.commands[key]
	if m == nil {
		return
	}
	m.executed++
	m.sent[r.Header.Get(callHeader)] = true
	s.note(nil, "%s is executed", key)
	switch {
	case m.executed > 1 && !m.repeats:
		s.violate("done twice", nil, "%s", key)
	case m.executed > 1:
		s.count("sent twice, declared")
	}
	for _, newer := range s.commands {
		if m.group != "" && newer.group == m.group && newer.executed > 0 && !m.returned.IsZero() &&
			m.returned.Before(newer.begun) {
			s.violate("older value over a newer", nil, "%s after %s", key, newer.key)
		}
	}
}

// returned compares the result of a call with the truth.
func (s *schedule) returned(c *caller, m *simulated, body, id string, err error) {
	_, truth := m.done(s.service.Snapshot())
	s.mu.Lock()
	defer s.mu.Unlock()
	for kind, name := range map[error]string{
		idempotency.ErrInProgress: "in progress", idempotency.ErrNeedsReview: "needs review",
		idempotency.ErrLocked: "lock held",
	} {
		if errors.Is(err, kind) {
			s.count(name)
		}
	}
	var refused *idempotency.Error
	outcome, executed := lending.OutcomeOf(err), m.executed > 0
	switch {
	case outcome == lending.OutcomeDone && !executed:
		s.violate("done and has not happened", c, "%s: %v", m.key, err)
	case outcome == lending.OutcomeNotSent && c.reached:
		s.violate("not sent and was", c, "%s: %v", m.key, err)
	case outcome == lending.OutcomeRejected && m.sent[c.number]:
		s.violate("rejected and has happened", c, "%s: %v", m.key, err)
	case errors.Is(err, idempotency.ErrNeedsReview) && m.isShown():
		s.violate("a person for what reads show", c, "%s: %v", m.key, err)
	case errors.As(err, &refused) && !errors.Is(err, idempotency.ErrStore) && c.sends > 0:
		s.violate("refused and was sent", c, "%s: %v", m.key, err)
	}
	if err != nil {
		return
	}
	if m.returned.IsZero() {
		m.returned = time.Now()
	}
	s.count(c.action)
	if id != "" && id != idIn(truth) {
		s.violate("another answer", c, "%s: %s, and it is %v", m.key, id, truth)
	}
	if c.action != idempotency.ActionSent && m.replay == nil {
		m.replay = &body
	}
	if c.action != idempotency.ActionSent && *m.replay != body {
		s.violate("another answer", c, "%s: %q after %q", m.key, body, *m.replay)
	}
}

// holds sees to what must hold at the end.
func (s *schedule) holds() {
	world := s.service.Snapshot()
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, m := range s.commands {
		if strings.HasPrefix(key, "withdraw") {
			continue
		}
		if there, _ := m.done(world); m.group == "" && key != "bank" && there != m.executed {
			s.violate("the simulation itself", nil, "%s: counted %d times, and is there %d times", key, m.executed, there)
		}
		if m.executed == 0 {
			s.violate("lost", nil, "%s", key)
		}
	}
	name := world.Applications[1].BusinessName // the first is that of the loan
	if s.commands["name-2"] != nil && name != "Name 2" {
		s.violate("older value over a newer", nil, "the business is called %q", name)
	}
}
