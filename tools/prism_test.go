package tools

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The gate is skipped where npm or its registry cannot be had, for no other reason, and says why.
func TestPrismIsSkippedOnlyWithoutNpm(t *testing.T) {
	for _, test := range []struct {
		name string

		npm   string // "" for none
		want  string
		fails bool
	}{
		{"no npm", "", "openapi-peer: SKIPPED, there is no npm on this machine", false},
		{
			"no network",
			"npm error code ENOTFOUND",
			"openapi-peer: SKIPPED, npm's registry cannot be reached: code ENOTFOUND", false,
		},
		{
			"an older npm",
			"npm ERR! code ECONNREFUSED",
			"openapi-peer: SKIPPED, npm's registry cannot be reached: code ECONNREFUSED", false,
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
			if test.npm != "" {
				script := "#!" + filepath.Join(bin, "bash") + "\necho '" + test.npm + "' >&2\nexit 1\n"
				if err := os.WriteFile(filepath.Join(bin, "npm"), []byte(script), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			run := exec.Command(filepath.Join(bin, "bash"), "prism.sh", filepath.Join(t.TempDir(), "prism"))
			run.Env = []string{"PATH=" + bin}
			out, err := run.CombinedOutput()
			if got := strings.TrimSpace(string(out)); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if (err != nil) != test.fails {
				t.Errorf("it ended with %v", err)
			}
		})
	}
}

// What is installed is what was looked at, wherever it comes from.
func TestPrismIsPinned(t *testing.T) {
	text, err := os.ReadFile("prism/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	var lock struct {
		Packages map[string]struct{ Resolved, Integrity string }
	}
	if err := json.Unmarshal(text, &lock); err != nil {
		t.Fatal(err)
	}
	if len(lock.Packages) < 100 {
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
