package python_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/examples/internal/golden"
)

// A program in another language does the whole journey against the sandbox, a separate process,
// and controls it: over http, and over https with the certificate that the sandbox writes.
func TestJourney(t *testing.T) {
	python, sandbox := interpreter(t), build(t)
	t.Run("whole", func(t *testing.T) { journey(t, python, sandbox) })
	t.Run("cannot begin", func(t *testing.T) { journeyCannotBegin(t, python, sandbox) })
}

func journey(t *testing.T, python, sandbox string) {
	t.Helper()
	certificate := filepath.Join(t.TempDir(), "sandbox.pem")
	for _, test := range []struct {
		scheme string
		flags  []string
	}{{"http", nil}, {"https", []string{"-tls", certificate}}} {
		t.Run(test.scheme, func(t *testing.T) {
			url := start(t, sandbox, test.flags...)
			require.True(t, strings.HasPrefix(url, test.scheme+"://"), url)
			// -I isolates the program from other installed packages; -W error makes warnings
			// errors.
			cmd := exec.CommandContext(t.Context(), python, "-I", "-X", "dev", "-W", "error", "journey.py", url)
			cmd.Env = append(os.Environ(), "SSL_CERT_FILE="+certificate, "no_proxy=*")
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, string(out))
			golden.Check(t, "testdata/output.golden", string(out))
		})
	}
}

// If the sandbox is missing or has no control, the program says how to fix this. It does not
// report a lost response.
func journeyCannotBegin(t *testing.T, python, sandbox string) {
	t.Helper()
	for _, test := range []struct{ name, url, says string }{
		{"nobody listens", "http://127.0.0.1:1", "no connection to http://127.0.0.1:1/_control; is the sandbox running?"},
		{"no control", start(t, sandbox, "-control=false"), "is off: start the sandbox with -control"},
	} {
		t.Run(test.name, func(t *testing.T) {
			out, err := exec.CommandContext(t.Context(), python, "-I", "journey.py", test.url).CombinedOutput()
			require.Error(t, err)
			require.Contains(t, string(out), test.says)
			require.NotContains(t, string(out), "Traceback")
		})
	}
}

func build(t *testing.T) string {
	t.Helper()
	sandbox := filepath.Join(t.TempDir(), "sandbox")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", sandbox, "../sandbox").CombinedOutput()
	require.NoError(t, err, string(out))
	return sandbox
}

// interpreter returns the first python3 in PATH that runs. An interpreter of a version manager
// may need the home folder of another user.
func interpreter(t *testing.T) string {
	t.Helper()
	for _, folder := range filepath.SplitList(os.Getenv("PATH")) {
		python := filepath.Join(folder, "python3")
		if exec.CommandContext(t.Context(), python, "-I", "-c", "import ssl").Run() == nil {
			return python
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("journey.py was not run: there is no python3, which .ci/run installs")
	}
	t.Skip("journey.py was not run: there is no python3 on this machine")
	return ""
}

// start starts a sandbox on a free port and returns its address.
func start(t *testing.T, program string, flags ...string) (url string) {
	t.Helper()
	cmd := exec.Command(program, append([]string{"-addr", "127.0.0.1:0", "-control", "-log=false"}, flags...)...)
	printed, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	lines := bufio.NewReader(printed)
	first, err := lines.ReadString('\n')
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait() // reports the kill
	})
	return strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(first), "The sandbox is at "), "/")
}
