package guarantees_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/wire"
)

// settledBy returns the reads that the error of the method names, when nothing else is known.
func settledBy(t *testing.T, name string) string {
	t.Helper()
	client := wire.NewClient(t, "https://lending.example", lending.WithTokenSource(lending.StaticToken("test-token")),
		lending.WithHTTPClient(&http.Client{Transport: wire.Reply(http.StatusInternalServerError, "")}))
	_, err := catalog.Calls[name](t.Context(), client)
	var failed *lending.Error
	require.ErrorAs(t, err, &failed)
	return failed.CheckWith
}

// TestEveryMutationIsSettledOrSaidNotToBe holds that the error of each mutation names the
// reads that settle it, or that the comment of its method says that nothing does.
// TestErrorsOfEveryRoute compares those it names with their comments.
func TestEveryMutationIsSettledOrSaidNotToBe(t *testing.T) {
	docs := methodDocs(t)
	for name, r := range catalog.Routes(t) {
		if r.Reads || settledBy(t, name) != "" {
			continue
		}
		said := slices.ContainsFunc([]string{"othing shows", "o read shows", "ign in again", "only the receiver shows"}, func(phrase string) bool {
			return strings.Contains(strings.Join(strings.Fields(docs[name]), " "), phrase)
		})
		assert.True(t, said, "the comment of %s does not say that nothing shows it", name)
	}
}
