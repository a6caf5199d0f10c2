package idempotency_test

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// trace is the record of a run: lines with times, and the first violation of each kind. trace
// has no lock; the caller has to lock.
type trace struct {
	start    time.Time
	lines    []string
	violated map[string]violation
}

// violation is a broken rule with the lines before it.
type violation struct {
	text   string
	before []string
}

// newTrace starts a trace at the current time of the bubble.
func newTrace() *trace { return &trace{start: time.Now(), violated: map[string]violation{}} }

// line adds an event of a process or a caller.
func (t *trace) line(who, format string, args ...any) {
	if len(t.lines) > 600 {
		t.lines = slices.Clone(t.lines[400:])
	}
	line := fmt.Sprintf("%10.3f s  %-2s  ", time.Since(t.start).Seconds(), who) + fmt.Sprintf(format, args...)
	t.lines = append(t.lines, line)
	if strings.Contains(line, "!(") {
		t.keep("the simulation itself", line)
	}
}

// violate records a broken rule.
func (t *trace) violate(kind, who, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	t.line(who, "VIOLATED: %s: %s", kind, text)
	t.keep(kind, text)
}

func (t *trace) keep(kind, text string) {
	if _, known := t.violated[kind]; !known {
		t.violated[kind] = violation{text, slices.Clone(t.lines[max(0, len(t.lines)-100):])}
	}
}
