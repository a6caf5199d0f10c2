package main

import (
	"maps"
	"slices"
)

// changes are what is not as it was: of what was known, of what was seen now, and of
// both together. Of a route that was not seen there is nothing to say, nor of an
// optional field that was not.
func changes(was, now, both map[string]*shape) (lines []string) {
	for _, route := range slices.Sorted(maps.Keys(now)) {
		if was[route] == nil {
			lines = append(lines, route+": new")
			continue
		}
		before, seen, after := was[route].places("", false), now[route].places("", false), both[route].places("", false)
		for _, path := range slices.Sorted(maps.Keys(after)) {
			line := route + " " + path + ": "
			switch what := before[path]; {
			case what == after[path]:
			case what == "":
				lines = append(lines, line+"new, "+after[path])
			case seen[path] == "":
				lines = append(lines, line+"gone, was "+what)
			default:
				lines = append(lines, line+"was "+what+", is "+after[path])
			}
		}
	}
	return lines
}
