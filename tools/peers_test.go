package tools

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A gate with packages of npm runs without them if npm or its registry cannot be had, for no other reason, and says so.
func TestPeersAreSkippedOnlyWithoutNpm(t *testing.T) {
	for _, script := range []string{"axe.sh", "openapi.sh"} {
		t.Run(script, func(t *testing.T) { skippedOnlyWithoutNpm(t, script) })
	}
}

func skippedOnlyWithoutNpm(t *testing.T, script string) {
	t.Helper()
	gate := map[string]string{"axe.sh": "axe-peer", "openapi.sh": "openapi-peer"}[script]
	for _, test := range []struct {
		name string

		npm   string // "" for none
		want  string
		fails bool
	}{
		{"no npm", "", gate + ": SKIPPED, there is no npm on this machine", false},
		{
			"no network",
			"npm error code ENOTFOUND",
			gate + ": SKIPPED, npm's registry cannot be reached: code ENOTFOUND", false,
		},
		{
			"an older npm",
			"npm ERR! code ECONNREFUSED",
			gate + ": SKIPPED, npm's registry cannot be reached: code ECONNREFUSED", false,
		},
		{"another package", "npm error code EINTEGRITY", "npm error code EINTEGRITY", true},
		{"an outdated lock", "npm error code EUSAGE", "npm error code EUSAGE", true},
		{"a version gone", "npm error code E404", "npm error code E404", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			bin := t.TempDir()
			for _, command := range []string{"bash", "dirname", "mkdir", "cmp", "rm", "cp", "grep"} {
				path, err := exec.LookPath(command)
				if err == nil {
					err = os.Symlink(path, filepath.Join(bin, command))
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			for name, script := range map[string]string{"npm": "echo '" + test.npm + "' >&2; exit 1", "go": "echo $PWD $@"} {
				script = "#!" + filepath.Join(bin, "bash") + "\n" + script + "\n"
				if name == "npm" && test.npm == "" {
					continue
				}
				if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			run := exec.Command(filepath.Join(bin, "bash"), script, filepath.Join(t.TempDir(), "peer"))
			run.Env = []string{"PATH=" + bin}
			out, err := run.CombinedOutput()
			got, tests, ran := strings.Cut(strings.TrimSpace(string(out)), "\n")
			if got != test.want || ran == test.fails {
				t.Errorf("got %q and ran %q, want %q", got, tests, test.want)
			}
			if (err != nil) != test.fails {
				t.Errorf("it ended with %v", err)
			}
		})
	}
}

// npm installs the reviewed packages, by checksum.
func TestPeersArePinned(t *testing.T) {
	for _, test := range []struct {
		name  string
		least int // packages
	}{{"axe", 1}, {"openapi", 20}} {
		t.Run(test.name, func(t *testing.T) { pinned(t, test.name, test.least) })
	}
}

func pinned(t *testing.T, name string, least int) {
	t.Helper()
	text, err := os.ReadFile(name + "/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	var lock struct {
		Packages map[string]struct{ Resolved, Integrity string }
	}
	if err := json.Unmarshal(text, &lock); err != nil {
		t.Fatal(err)
	}
	if len(lock.Packages) < least {
		t.Errorf("%d packages", len(lock.Packages))
	}
	for name, p := range lock.Packages {
		if name != "" && !strings.HasPrefix(p.Integrity, "sha512-") {
			t.Errorf("%s has no checksum", name)
		}
		if p.Resolved != "" && !strings.HasPrefix(p.Resolved, "https://registry.npmjs.org/") {
			t.Errorf("%s comes from %s", name, p.Resolved)
		}
	}
}
