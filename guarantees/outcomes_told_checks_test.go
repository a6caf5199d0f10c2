package guarantees_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lendingapi/lending-go/internal/test/catalog"
)

// The error of each mutation names the reads that tell whether it happened, or the comment of its
// method says that no read does. [TestEveryErrorNamesRouteAndChecks] compares the names with the
// comments.
func TestEveryMutationNamesItsReads(t *testing.T) {
	docs := methodDocs(t)
	for name, r := range catalog.Routes(t) {
		if r.Reads || catalog.CheckWith(t, name) != "" {
			continue
		}
		said := slices.ContainsFunc([]string{"othing shows", "o read shows", "ign in again", "only the receiver shows"},
			func(phrase string) bool {
				return strings.Contains(strings.Join(strings.Fields(docs[name]), " "), phrase)
			})
		assert.True(t, said, "the comment of %s does not say that nothing shows it", name)
	}
}
