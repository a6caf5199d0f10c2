package python_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/examples/internal/golden"
	"github.com/lendingapi/lending-go/examples/internal/sandboxtest"
)

// A program in another language does the whole journey against the sandbox, a separate process,
// and controls it: over http, and over https with the certificate that the sandbox writes.
func TestJourney(t *testing.T) {
	python, sandbox := sandboxtest.Interpreter(t, "python3", "-I", "-c", "import ssl"), sandboxtest.Build(t)
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
			url := sandboxtest.Start(t, sandbox, test.flags...)
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
		{"no control", sandboxtest.Start(t, sandbox, "-control=false"), "is off: start the sandbox with -control"},
	} {
		t.Run(test.name, func(t *testing.T) {
			out, err := exec.CommandContext(t.Context(), python, "-I", "journey.py", test.url).CombinedOutput()
			require.Error(t, err)
			require.Contains(t, string(out), test.says)
			require.NotContains(t, string(out), "Traceback")
		})
	}
}
