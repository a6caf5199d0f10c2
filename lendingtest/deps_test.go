package lendingtest_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whoever uses the fake takes on no dependency with it, and the fake shares no
// code with the client that it is there to test.
func TestStandardLibraryOnly(t *testing.T) {
	t.Parallel()
	const self = "github.com/lendingapi/lending-go/lendingtest"
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f",
		"{{if not .Standard}}{{.ImportPath}}{{end}}", self, self+"/control").CombinedOutput()
	require.NoError(t, err, string(out))
	for name := range strings.FieldsSeq(string(out)) {
		require.True(t, name == self || strings.HasPrefix(name, self+"/"), name)
	}
}
