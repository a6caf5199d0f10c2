package shapes

import (
	"maps"
	"slices"
	"strings"
)

// Changes compares earlier responses with later responses and returns a line for each
// difference, for example
//
//	GET /api/Loan/get-loan/{loanId} .rate: was number, is string
//
// There are no lines for a route without later responses, and none for a missing optional field.
func Changes(earlier, later Seen) (lines []string) {
	both := earlier.Merge(later)
	for _, route := range slices.Sorted(maps.Keys(later)) {
		if earlier[route] == nil {
			lines = append(lines, route+": new")
			continue
		}
		lines = append(lines, differences(route, earlier[route], later[route], both[route])...)
	}
	return lines
}

// differences returns a line for each place of both that has changed.
func differences(route string, was, now, both *Shape) (lines []string) {
	before, seen, after := was.places("", false), now.places("", false), both.places("", false)
	for _, path := range slices.Sorted(maps.Keys(after)) {
		line := strings.TrimSpace(route+" "+path) + ": "
		switch what := before[path]; {
		case what == after[path]:
		case what == "":
			lines = append(lines, line+"new, "+after[path])
		case seen[path] == "":
			lines = append(lines, line+"gone, was "+what)
		case strings.HasPrefix(after[path], "mixed"):
			lines = append(lines, line+"was "+what+", is "+seen[path])
		default:
			lines = append(lines, line+"was "+what+", is "+after[path])
		}
	}
	return lines
}
