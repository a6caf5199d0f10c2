package catalog

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/wire"
)

// CheckWith returns the reads that the error of a method names when the outcome is unknown.
func CheckWith(t *testing.T, method string) string {
	t.Helper()
	client := wire.NewClient(t, "https://lending.example", lending.WithTokenSource(lending.StaticToken("test-token")),
		lending.WithHTTPClient(&http.Client{Transport: wire.Reply(http.StatusInternalServerError, "")}))
	_, err := Calls[method](t.Context(), client)
	var failed *lending.Error
	require.ErrorAs(t, err, &failed)
	return failed.CheckWith
}
