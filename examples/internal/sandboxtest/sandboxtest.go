// Package sandboxtest starts the sandbox as a process, for programs in other languages.
package sandboxtest

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Build compiles the sandbox and returns the path of the program.
func Build(t *testing.T) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "sandbox")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", program, "github.com/lendingapi/lending-go/examples/sandbox")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}

// Start starts a sandbox with a control on a free port, and returns its address.
func Start(t *testing.T, program string, flags ...string) (url string) {
	t.Helper()
	cmd := exec.Command(program, append([]string{"-addr", "127.0.0.1:0", "-control", "-log=false"}, flags...)...)
	cmd.Stderr = os.Stderr
	printed, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // reports the kill
	})
	first, err := bufio.NewReader(printed).ReadString('\n')
	if err != nil {
		t.Fatal("the sandbox did not start:", err)
	}
	return strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(first), "The sandbox is at "), "/")
}

// Interpreter returns the first program of this name in PATH that runs with these arguments. An
// interpreter of a version manager may need the home folder of another user. Without an
// interpreter the test is skipped, and fails in CI.
func Interpreter(t *testing.T, name string, args ...string) string {
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
