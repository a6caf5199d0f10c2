package simulation

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"
)

// Trace is the story of a run: lines with times, and the first violation of each kind. It has
// no lock: the watch that keeps it has one.
type Trace struct {
	start    time.Time
	lines    []string
	sum      uint64
	Violated map[string]Violation
}

// Violation is a broken rule and what came before it.
type Violation struct {
	Text   string
	Before []string
}

// NewTrace begins a trace in the bubble that it is called in.
func NewTrace() *Trace { return &Trace{start: time.Now(), Violated: map[string]Violation{}} }

// Since returns the time of the run.
func (t *Trace) Since(at time.Time) time.Duration { return at.Sub(t.start) }

// Line notes what happens to a process or a caller.
func (t *Trace) Line(who, format string, args ...any) {
	if len(t.lines) > 600 {
		t.lines = slices.Clone(t.lines[400:])
	}
	line := fmt.Sprintf("%10.3f s  %-2s  ", time.Since(t.start).Seconds(), who) + fmt.Sprintf(format, args...)
	t.lines = append(t.lines, line)
	sum := fnv.New64a()
	fmt.Fprintln(sum, t.sum, line)
	t.sum = sum.Sum64()
	if strings.Contains(line, "!(") {
		t.keep("the simulation itself", line)
	}
}

// Violate notes that a rule is broken.
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

// Sum is the same for two runs in which the same happened at the same times.
func (t *Trace) Sum() uint64 { return t.sum }
