package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/internal/test/golden"
	"github.com/lendingapi/lending-go/internal/test/longrun"
)

// A program in another language does the whole journey against the sandbox, and controls it: over http, and in a long
// run over https with the certificate of the sandbox. Every run has the first call over https.
func TestJourneyInPython(t *testing.T) {
	t.Parallel()
	python := interpreter(t, "python3", "-I", "-c", "import ssl, sys; print(sys.executable)")
	const journey = "../../examples/python/journey.py"
	certificate := filepath.Join(t.TempDir(), "sandbox.pem")
	for scheme, flags := range map[string][]string{"http": nil, "https": {"-tls", certificate}} {
		t.Run(scheme, func(t *testing.T) {
			isWhole := scheme == "http" || longrun.Wanted()
			url := start(t, append(flags, "-log=false", fmt.Sprint("-control=", isWhole))...).url
			// -I isolates the program from other installed packages; -W error makes warnings errors.
			cmd := exec.CommandContext(t.Context(), python, "-I", "-X", "dev", "-W", "error", journey, url)
			cmd.Env = append(os.Environ(), "SSL_CERT_FILE="+certificate, "no_proxy=*")
			if !isWhole { // a response: the certificate is trusted
				cannotBegin(t, cmd, "the control of "+url+" is off: start the sandbox with -control", "Traceback")
				return
			}
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, string(out))
			golden.Check(t, "../../examples/python/testdata/output.golden", string(out))
		})
	}
	// The program reports no lost response without a sandbox.
	cmd := exec.CommandContext(t.Context(), python, "-I", journey, "http://127.0.0.1:1")
	cannotBegin(t, cmd, "no connection to http://127.0.0.1:1/_control; is the sandbox running?", "Traceback")
}

// A front-end developer's program, in Node without packages, does the whole tour: a withdrawal whose
// response is lost, the reasons of failed calls, a sandbox shared by 50 accounts, life after the
// happy path, webhooks in every mode, and fields learned from real responses.
func TestJourneyInNode(t *testing.T) {
	t.Parallel()
	node := interpreter(t, "node", "--eval", "fetch; console.log(process.execPath)")
	const journey = "../../examples/node/journey.mjs"
	t.Run("whole", func(t *testing.T) {
		model := start(t, "-log=false", "-control")
		taught := start(t, "-log=false", "-control", "-service", "../../examples/node/testdata/service.json")
		out, err := exec.CommandContext(t.Context(), node, journey, model.url, taught.url).CombinedOutput()
		require.NoError(t, err, string(out))
		golden.Check(t, "../../examples/node/testdata/output.golden", string(out))
	})
	for url, says := range map[string]string{
		"http://127.0.0.1:1":       "no connection to http://127.0.0.1:1; is the sandbox running?",
		start(t, "-log=false").url: "is off: start the sandbox with -control",
	} {
		cannotBegin(t, exec.CommandContext(t.Context(), node, journey, url), says, "at async")
	}
}

// cannotBegin runs a program where the sandbox is missing or has no control: it says how to
// fix this, and does not fail somewhere else.
func cannotBegin(t *testing.T, program *exec.Cmd, says, never string) {
	t.Helper()
	out, err := program.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), says)
	require.NotContains(t, string(out), never)
}

// interpreter returns the path that the first program of this name in PATH prints with these arguments. An
// interpreter of a version manager may need the home folder of another user. Without an
// interpreter the test is skipped, and fails in CI.
func interpreter(t *testing.T, name string, args ...string) string {
	t.Helper()
	for _, folder := range filepath.SplitList(os.Getenv("PATH")) {
		out, err := exec.CommandContext(t.Context(), filepath.Join(folder, name), args...).Output()
		if err == nil {
			return strings.TrimSpace(string(out))
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("the program was not run: there is no %s, which .ci/run installs", name)
	}
	t.Skipf("the program was not run: there is no %s on this machine", name)
	return ""
}
