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

// A program that tests with lendingtest adds nothing to its go.sum.
func TestFakeNeedsTheStandardLibraryOnly(t *testing.T) {
	const root = "github.com/lendingapi/lending-go"
	list := exec.CommandContext(t.Context(), "go", "list", "-f", `{{join .Imports "\n"}}`, root+"/lendingtest/...")
	out, err := list.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "net/http")
	for path := range strings.FieldsSeq(string(out)) {
		first, _, _ := strings.Cut(path, "/")
		ours := path == root || strings.HasPrefix(path, root+"/")
		require.True(t, ours || !strings.Contains(first, "."), path)
	}
}
