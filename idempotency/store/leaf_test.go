package store_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A store author compiles neither the client nor the engine: package store imports nothing of this
// module but leaves below internal.
func TestStoreCompilesNoClient(t *testing.T) {
	const module = "github.com/lendingapi/lending-go"
	listed, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	require.NoError(t, err)
	for dep := range strings.Lines(string(listed)) {
		dep = strings.TrimSpace(dep)
		if path, ours := strings.CutPrefix(dep, module); ours && path != "/idempotency/store" {
			require.True(t, strings.HasPrefix(path, "/internal/"), "%s is not a leaf", dep)
		}
	}
}
