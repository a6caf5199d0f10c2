package node_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/examples/internal/golden"
	"github.com/lendingapi/lending-go/examples/internal/sandboxtest"
)

// A front-end developer's program, in Node without packages, does the whole tour: a withdrawal whose
// response is lost, the reasons of failed calls, a sandbox shared by 50 accounts, life after the
// happy path, webhooks in every mode, and fields learned from real responses.
func TestJourney(t *testing.T) {
	node, program := sandboxtest.Interpreter(t, "node", "--eval", "fetch"), sandboxtest.Build(t)
	t.Run("whole", func(t *testing.T) { journey(t, node, program) })
	t.Run("cannot begin", func(t *testing.T) { journeyCannotBegin(t, node, program) })
}

func journey(t *testing.T, node, program string) {
	t.Helper()
	learned := filepath.Join(t.TempDir(), "shapes.json")
	out, err := exec.CommandContext(t.Context(), "go", "run", "../fields", "-state", learned,
		"testdata/capture.jsonl").CombinedOutput()
	require.NoError(t, err, string(out))
	out, err = exec.CommandContext(t.Context(), node, "journey.mjs", sandboxtest.Start(t, program),
		sandboxtest.Start(t, program, "-shapes", learned)).CombinedOutput()
	require.NoError(t, err, string(out))
	golden.Check(t, "testdata/output.golden", string(out))
}

// If the sandbox is missing or has no control, the program says how to fix this.
func journeyCannotBegin(t *testing.T, node, program string) {
	t.Helper()
	for _, test := range []struct{ name, url, says string }{
		{"nobody listens", "http://127.0.0.1:1", "no connection to http://127.0.0.1:1; is the sandbox running?"},
		{"no control", sandboxtest.Start(t, program, "-control=false"), "is off: start the sandbox with -control"},
	} {
		t.Run(test.name, func(t *testing.T) {
			out, err := exec.CommandContext(t.Context(), node, "journey.mjs", test.url).CombinedOutput()
			require.Error(t, err)
			require.Contains(t, string(out), test.says)
			require.NotContains(t, string(out), "at async")
		})
	}
}
