package tools

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A gate with packages of npm is skipped if npm or its registry cannot be had, for no other reason, and says why.
func TestPeersAreSkippedOnlyWithoutNpm(t *testing.T) {
	for _, script := range []string{"axe.sh", "prism.sh", "restate.sh"} {
		t.Run(script, func(t *testing.T) { skippedOnlyWithoutNpm(t, script) })
	}
}

func skippedOnlyWithoutNpm(t *testing.T, script string) {
	t.Helper()
	gate := map[string]string{"axe.sh": "axe-peer", "prism.sh": "openapi-peer", "restate.sh": "restate-peer"}[script]
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
			if test.npm != "" {
				npm := "#!" + filepath.Join(bin, "bash") + "\necho '" + test.npm + "' >&2\nexit 1\n"
				if err := os.WriteFile(filepath.Join(bin, "npm"), []byte(npm), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			run := exec.Command(filepath.Join(bin, "bash"), script, filepath.Join(t.TempDir(), "peer"))
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

// npm installs the reviewed packages, by checksum.
func TestPeersArePinned(t *testing.T) {
	for _, test := range []struct {
		name  string
		least int // packages
	}{{"axe", 1}, {"prism", 100}, {"restate", 2}} {
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

// A gate that chooses no test would pass.
func TestPeersChooseTests(t *testing.T) {
	for script, folder := range map[string]string{"axe.sh": "browser", "prism.sh": "openapi", "restate.sh": "restate"} {
		t.Run(script, func(t *testing.T) {
			text, err := os.ReadFile(script)
			if err != nil {
				t.Fatal(err)
			}
			pattern := "Test"
			if _, after, ok := strings.Cut(string(text), "-run '"); ok {
				pattern, _, _ = strings.Cut(after, "'")
			}
			alternatives := regexp.MustCompile(`^\^Test\((.*)\)\$?$`).ReplaceAllString(pattern, "$1")
			for name := range strings.SplitSeq(alternatives, "|") {
				command := exec.Command("grep", "-qE", "^func (Test)?"+name, "-r", "--include=*_test.go", "../tests/"+folder)
				if out, err := command.CombinedOutput(); err != nil {
					t.Errorf("no test of %s matches %s: %v %s", folder, name, err, out)
				}
			}
		})
	}
}
