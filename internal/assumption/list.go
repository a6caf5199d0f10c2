// Package assumption lists the beliefs of this project about the service without proof, because
// the interface is silent: list.txt. docs/dev/assumptions.md shows the list.
package assumption

import (
	_ "embed" // for list.txt
	"strings"
	"sync"
)

// Level is the part of the probe that measures an assumption.
type Level string

// The levels of the probe. Each includes Look; Events includes Walk.
const (
	Look   Level = "look"   // reads only
	Walk   Level = "walk"   // creates a marked customer and an application
	Events Level = "events" // receives webhooks during the walk
	Watch  Level = "watch"  // follows a program that withdraws money
	Ask    Level = "ask"    // not measured: somebody must ask the owner of the service
)

// Assumption is a belief about the service. The facts of package probe begin with its Name.
type Assumption struct {
	Name     string
	What     string // the belief
	Where    string // the parts with this belief
	IfFalse  string // the effect of a wrong belief
	Level    Level
	Measured string   // the method of the probe, or the reason why there is none
	Set      string   // the setting that a partner changes after a wrong belief
	Checks   []string // mutations of docs/dev/checks.md
	Codes    []string // codes of refusals in lendingtest
}

//go:embed list.txt
var list string

var all = sync.OnceValue(func() (all []Assumption) {
	for block := range strings.SplitSeq(list, "\n\n") {
		head, lines, _ := strings.Cut(block, "\n")
		name, level, _ := strings.Cut(head, " (")
		a := Assumption{Name: name, Level: Level(strings.TrimSuffix(level, ")"))}
		texts := map[string]*string{
			"what": &a.What, "where": &a.Where, "if false": &a.IfFalse, "measured": &a.Measured, "set": &a.Set,
		}
		for line := range strings.SplitSeq(strings.TrimSpace(lines), "\n") {
			switch label, value, _ := strings.Cut(line, ": "); label {
			case "checks":
				a.Checks = strings.Fields(value)
			case "codes":
				a.Codes = strings.Fields(value)
			default:
				*texts[label] = value
			}
		}
		all = append(all, a)
	}
	return all
})

// All returns the list.
func All() []Assumption { return all() }

// How tells how to measure an assumption, or why nobody can.
func (a Assumption) How() string {
	return map[Level]string{
		Look: "no record to measure with", Walk: "needs -create", Events: "needs -create and -webhooks", Watch: "needs probe.Watch in your program",
		Ask: "not measured: " + a.Measured,
	}[a.Level]
}
