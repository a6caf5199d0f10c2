package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/internal/test/golden"
	"github.com/lendingapi/lending-go/internal/test/longrun"
)

// A program in another language does the whole journey against the sandbox, and controls it: over http, and in a long
// run over https with the certificate of the sandbox. Every run has the first call over https.
func TestJourneyInPython(t *testing.T) {
	t.Parallel()
	python := interpreter(t, "python3", "-I", "-c", "import ssl")
	certificate := filepath.Join(t.TempDir(), "sandbox.pem")
	for scheme, flags := range map[string][]string{"http": nil, "https": {"-tls", certificate}} {
		t.Run(scheme, func(t *testing.T) {
			isWhole := scheme == "http" || longrun.Wanted()
			url := start(t, append(flags, "-log=false", fmt.Sprint("-control=", isWhole))...).url
			// -I isolates the program from other installed packages; -W error makes warnings errors.
			const journey = "../../examples/python/journey.py"
			cmd := exec.CommandContext(t.Context(), python, "-I", "-X", "dev", "-W", "error", journey, url)
			cmd.Env = append(os.Environ(), "SSL_CERT_FILE="+certificate, "no_proxy=*")
			out, err := cmd.CombinedOutput()
			if !isWhole {
				require.Error(t, err)
				require.Contains(t, string(out), "the control of https://127.0.0.1:", "a response: the certificate is trusted")
				return
			}
			require.NoError(t, err, string(out))
			golden.Check(t, "../../examples/python/testdata/output.golden", string(out))
		})
	}
	// The program reports no lost response without a sandbox.
	journeyCannotBegin(t, "http://127.0.0.1:1/_control; is", "Traceback", python, "-I", "../../examples/python/journey.py")
}

// A front-end developer's program, in Node without packages, does the whole tour: a withdrawal whose
// response is lost, the reasons of failed calls, a sandbox shared by 50 accounts, life after the
// happy path, webhooks in every mode, and fields learned from real responses.
func TestJourneyInNode(t *testing.T) {
	t.Parallel()
	node := interpreter(t, "node", "--eval", "fetch")
	t.Run("whole", func(t *testing.T) {
		model := start(t, "-log=false", "-control")
		taught := start(t, "-log=false", "-control", "-service", "../../examples/node/testdata/service.json")
		const journey = "../../examples/node/journey.mjs"
		out, err := exec.CommandContext(t.Context(), node, journey, model.url, taught.url).CombinedOutput()
		require.NoError(t, err, string(out))
		golden.Check(t, "../../examples/node/testdata/output.golden", string(out))
	})
	journeyCannotBegin(t, "http://127.0.0.1:1; is", "at async", node, "../../examples/node/journey.mjs")
}

// journeyCannotBegin runs a program where the sandbox is missing or has no control: it says how to
// fix this, and does not fail somewhere else.
func journeyCannotBegin(t *testing.T, missing, never string, program ...string) {
	t.Helper()
	for _, test := range []struct{ name, url, says string }{
		{"nobody listens", "http://127.0.0.1:1", "no connection to " + missing + " the sandbox running?"},
		{"no control", start(t, "-log=false").url, "is off: start the sandbox with -control"},
	} {
		t.Run(test.name, func(t *testing.T) {
			out, err := exec.CommandContext(t.Context(), program[0], append(program[1:], test.url)...).CombinedOutput()
			require.Error(t, err)
			require.Contains(t, string(out), test.says)
			require.NotContains(t, string(out), never)
		})
	}
}

// interpreter returns the first program of this name in PATH that runs with these arguments. An
// interpreter of a version manager may need the home folder of another user. Without an
// interpreter the test is skipped, and fails in CI.
func interpreter(t *testing.T, name string, args ...string) string {
	t.Helper()
	for _, folder := range filepath.SplitList(os.Getenv("PATH")) {
		program := filepath.Join(folder, name)
		if exec.CommandContext(t.Context(), program, args...).Run() == nil {
			return program
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("the program was not run: there is no %s, which .ci/run installs", name)
	}
	t.Skipf("the program was not run: there is no %s on this machine", name)
	return ""
}
