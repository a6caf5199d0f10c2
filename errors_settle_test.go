package lending_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lendingapi/lending-go"
)

// TestEveryMutationIsSettledOrSaidNotToBe holds that the table has an entry for each
// mutation and for nothing else, and that the comment of a method whose entry is empty
// says so. TestErrorsOfEveryRoute compares the others with their comments.
func TestEveryMutationIsSettledOrSaidNotToBe(t *testing.T) {
	docs := methodDocs(t)
	known := map[string]bool{"GET /api/Application/application-offer/{applicationId}": true} // with force
	for name, r := range ledger(t) {
		if r.reads {
			continue
		}
		key := r.method + " " + r.path
		known[key] = true
		reads, ok := lending.SettledBy[key]
		assert.True(t, ok, "no entry for %s", name)
		if reads != "" {
			continue
		}
		said := slices.ContainsFunc([]string{"othing shows", "o read shows", "ign in again", "only the receiver shows"}, func(phrase string) bool {
			return strings.Contains(strings.Join(strings.Fields(docs[name]), " "), phrase)
		})
		assert.True(t, said, "the comment of %s does not say that nothing shows it", name)
	}
	for key := range lending.SettledBy {
		assert.True(t, known[key], "%s is no mutation", key)
	}
}
