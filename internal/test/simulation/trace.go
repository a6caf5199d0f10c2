// Package simulation keeps the story of a run on the fake time of testing/synctest.
package simulation

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Trace is the record of a run: lines with times, and the first violation of each kind. Trace
// has no lock; the caller has to lock.
type Trace struct {
	start    time.Time
	lines    []string
	Violated map[string]Violation
}

// Violation is a broken rule with the lines before it.
type Violation struct {
	Text   string
	Before []string
}

// NewTrace starts a trace at the current time of the bubble.
func NewTrace() *Trace { return &Trace{start: time.Now(), Violated: map[string]Violation{}} }

// Line adds an event of a process or a caller.
func (t *Trace) Line(who, format string, args ...any) {
	if len(t.lines) > 600 {
		t.lines = slices.Clone(t.lines[400:])
	}
	line := fmt.Sprintf("%10.3f s  %-2s  ", time.Since(t.start).Seconds(), who) + fmt.Sprintf(format, args...)
	t.lines = append(t.lines, line)
	if strings.Contains(line, "!(") {
		t.keep("the simulation itself", line)
	}
}

// Violate records a broken rule.
func (t *Trace) Violate(kind, who, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	t.Line(who, "VIOLATED: %s: %s", kind, text)
	t.keep(kind, text)
}

func (t *Trace) keep(kind, text string) {
	if _, known := t.Violated[kind]; !known {
		t.Violated[kind] = Violation{text, slices.Clone(t.lines[max(0, len(t.lines)-100):])}
	}
}
