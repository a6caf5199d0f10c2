package ops

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// sent tells of the sends up to number n. After [idempotency.Log.Restored] the first may be lost, or none.
func sent(n int) string {
	if n > 1 {
		return fmt.Sprintf("sent, number %d", n)
	}
	return "sent " + count(n, "time")
}

// routeInWords returns the last name in a route: "confirm withdrawal invoice".
func routeInWords(route string) string {
	route, _, _ = strings.Cut(route, "/{")
	return strings.ReplaceAll(route[strings.LastIndex(route, "/")+1:], "-", " ")
}

// ids returns the ids of the records in a fixed order, as text.
func ids(all map[string]string) []string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		texts = append(texts, strings.TrimSuffix(name, "Id")+" "+all[name])
	}
	return texts
}
