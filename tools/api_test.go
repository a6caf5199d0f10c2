package tools

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The gate holds exported names from the first tag on, in the modules under contrib too, and the stores
// of each release.
func TestAPI(t *testing.T) {
	apidiff := filepath.Join(t.TempDir(), "apidiff")
	if out, err := exec.Command("go", "build", "-o", apidiff,
		"golang.org/x/exp/cmd/apidiff").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	const (
		changelog = "# Changelog\n\n## [Unreleased]\n\n%s\n\n## [0.1.0]\n\n> **Action required:** an older one.\n"
		code      = "package p\n\ntype T struct{ F int }\n\nfunc F(n int) {}\n"
		main      = "example.com/p"
		contrib   = "example.com/p/contrib/c"
		stored    = "contrib/c/testdata/released/v0.1/store"
		lost      = "api: these stores of v0.1.0 have changed or are gone; restore them, " +
			"with git checkout v0.1.0 -- FILE:\n" + stored
	)
	for _, test := range []struct {
		name, tag, action string
		change            map[string]string // by file; "" removes it
		want              string            // the last line
		fails             bool
	}{
		{
			name: "nothing released", change: map[string]string{"p.go": "package p\n"},
			want: "api: nothing has been released yet, so any name may still change",
		},
		{name: "no change", tag: "v0.1.0", want: "api: no change since v0.1.0 can break a caller"},
		{
			name: "addition", tag: "v0.1.0", change: map[string]string{"p.go": code + "\nfunc New() {}\n"},
			want: "api: no change since v0.1.0 can break a caller",
		},
		{
			name: "removal", tag: "v0.1.0", change: map[string]string{"p.go": "package p\n\ntype T struct{ F int }\n"},
			fails: true,
			want: main + ": F: removed\n" +
				`api: these changes since v0.1.0 can break callers: CHANGELOG.md has no "Action required" for them`,
		},
		{
			name: "no longer comparable", tag: "v0.1.0", fails: true,
			change: map[string]string{"p.go": strings.Replace(code, "F int", "F int; f func()", 1)},
			want: main + ": T: old is comparable, new is not\n" +
				`api: these changes since v0.1.0 can break callers: CHANGELOG.md has no "Action required" for them`,
		},
		{
			name: "in contrib", tag: "v0.1.0", change: map[string]string{"contrib/c/p.go": "package p\n"}, fails: true,
			want: contrib + ": F: removed\n" + contrib + ": T: removed\n" +
				`api: these changes since v0.1.0 can break callers: CHANGELOG.md has no "Action required" for them`,
		},
		{
			name: "meant", tag: "v0.1.0", action: "> **Action required:** call G.",
			change: map[string]string{"p.go": code[:len(code)-len("func F(n int) {}\n")]},
			want:   main + ": F: removed\napi: CHANGELOG.md says what callers have to do",
		},
		{name: "a store edited", tag: "v0.1.0", change: map[string]string{stored: "other"}, fails: true, want: lost},
		{name: "a store gone", tag: "v0.1.0", change: map[string]string{stored: ""}, fails: true, want: lost},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write := func(file, text string) {
				if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(file)), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			run := func(name string, arguments ...string) (string, error) {
				command := exec.Command(name, arguments...)
				command.Dir = dir
				command.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=", "GIT_CONFIG_GLOBAL=/dev/null",
					"GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
				out, err := command.CombinedOutput()
				return strings.TrimSpace(string(out)), err
			}
			write("go.mod", "module "+main+"\n\ngo 1.26\n")
			write("p.go", code)
			write("contrib/c/go.mod", "module "+contrib+"\n\ngo 1.26\n")
			write("contrib/c/p.go", code)
			write(stored, "written once")
			git := [][]string{
				{"init", "-q"},
				{"add", "."},
				{"-c", "user.name=x", "-c", "user.email=x@example.com", "commit", "-qm", "x"},
			}
			if test.tag != "" {
				git = append(git, []string{"tag", test.tag})
			}
			for _, arguments := range git {
				if out, err := run("git", arguments...); err != nil {
					t.Fatalf("git %s: %v: %s", arguments, err, out)
				}
			}
			write("CHANGELOG.md", strings.Replace(changelog, "%s", test.action, 1))
			for file, text := range test.change {
				write(file, text)
				if text == "" {
					_ = os.Remove(filepath.Join(dir, file))
				}
			}
			script, err := filepath.Abs("api.sh")
			if err != nil {
				t.Fatal(err)
			}
			out, err := run(script, apidiff)
			if out != test.want || (err != nil) != test.fails {
				t.Errorf("ended with %v:\n%s\nwant:\n%s", err, out, test.want)
			}
		})
	}
}
