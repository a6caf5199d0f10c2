package lendingpostgres_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// earlier builds the tests of this package as of the last release, or of the commit in the
// environment. Before the first release, testdata/released.commit has the commit.
func earlier(t *testing.T) (program string) {
	t.Helper()
	folder := t.TempDir()
	run := func(in, name string, arguments ...string) (string, error) {
		command := exec.Command(name, arguments...)
		command.Dir = in
		text, err := command.CombinedOutput()
		return strings.TrimSpace(string(text)), err
	}
	commit := os.Getenv("LENDING_TEST_EARLIER")
	if commit == "" {
		var err error
		if commit, err = run(".", "git", "describe", "--tags", "--abbrev=0", "--match", "v*"); err != nil {
			text, err := os.ReadFile(filepath.Join("testdata", "released.commit"))
			if err != nil {
				t.Fatal(err)
			}
			commit = strings.TrimSpace(string(text))
		}
	}
	prefix, err := run(".", "git", "rev-parse", "--show-prefix")
	if err != nil {
		t.Skipf("no git history: %v: %s", err, prefix)
	}
	if text, err := run(".", "git", "cat-file", "-e", commit+"^{commit}"); err != nil {
		t.Skipf("the git history has no commit %s: %s", commit, text)
	}
	archive := `git -C "$(git rev-parse --show-toplevel)" archive "$1" | tar -x -C "$2"`
	if text, err := run(".", "sh", "-c", archive, "sh", commit, folder); err != nil {
		t.Fatalf("git archive: %v: %s", err, text)
	}
	program = filepath.Join(folder, "earlier.test")
	if text, err := run(filepath.Join(folder, prefix), "go", "test", "-c", "-o", program, "."); err != nil {
		t.Fatalf("the build of %s: %v: %s", commit, err, text)
	}
	return program
}
