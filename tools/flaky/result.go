package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// result is the outcome of all runs, by folder and test.
type result struct {
	ran      map[string]int
	failures map[string][]failure
}

func (all *result) add(r run, failures []failure) {
	for _, test := range r.tests {
		all.ran[r.of.dir+" "+test] += r.count
	}
	for _, f := range failures {
		name := r.of.dir + " " + f.test
		all.failures[name] = append(all.failures[name], f)
	}
}

// report lists the failed tests, most frequent first, with the command to repeat the first
// failure of each.
func (all *result) report() {
	times := map[string]int{}
	for name, failures := range all.failures {
		for _, f := range failures {
			times[name] += f.failed
		}
	}
	byTimes := func(a, b string) int { return cmp.Or(cmp.Compare(times[b], times[a]), cmp.Compare(a, b)) }
	for _, name := range slices.SortedFunc(maps.Keys(times), byTimes) {
		first := all.failures[name][0]
		fmt.Printf("\n%s failed %d of %d times\n  output: %s\n  repeat: %s\n",
			name, times[name], max(all.ran[name], times[name]), first.output, first.command())
	}
	fmt.Printf("\n%d of %d tests failed\n", len(times), len(all.ran))
}
