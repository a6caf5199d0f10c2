package shapes

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestKnownResponseIsCovered: a response without news is counted where it is, which costs no copy of all
// that the watcher knows.
func TestKnownResponseIsCovered(t *testing.T) {
	t.Parallel()
	const route = "GET /api/Loan/get-loan/{loanId}"
	shape := func(body string) *Shape { return read(route, []byte(body)) }
	known := shape(`[{"a":1,"b":[true]},{"a":2}]`)
	for body, want := range map[string]bool{
		`[]`: true, `[{"a":3}]`: true, `[{"a":3,"b":[]}]`: true,
		`[{"b":[]}]`: false, `[{"a":3,"c":1}]`: false, `[{"a":"3"}]`: false,
	} {
		assert.Equal(t, want, known.covers(shape(body)), body)
	}
}
