package guarantees_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A program that only calls the service compiles no webhook worker and no idempotency engine.
func TestRootImportsNoPackageAboveIt(t *testing.T) {
	const root = "github.com/lendingapi/lending-go"
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", root).CombinedOutput()
	require.NoError(t, err, string(out))
	var imported []string
	for path := range strings.Lines(string(out)) {
		imported = append(imported, strings.TrimSpace(path))
	}
	require.Contains(t, imported, root+"/internal/jsonsplit")
	for _, above := range []string{"webhook", "idempotency", "idempotency/store", "ops", "orders", "lendingtest"} {
		require.NotContains(t, imported, root+"/"+above)
	}
}
