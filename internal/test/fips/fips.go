// Package fips runs a test under GODEBUG=fips140=only, a setting of the process's start.
package fips

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

const child = "LENDING_TEST_FIPS_CHILD"

// Only reports whether the test runs under fips140=only. If not, Only runs the test in another
// process with this setting, and fails if the other run fails:
//
//	if !fips.Only(t) {
//		return
//	}
func Only(t *testing.T) bool {
	t.Helper()
	if os.Getenv(child) != "" {
		return true
	}
	again := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run=^"+t.Name()+"$")
	again.Env = append(os.Environ(), child+"=1", "GODEBUG=fips140=only")
	out, err := again.CombinedOutput()
	switch {
	case err != nil && !strings.Contains(string(out), "=== RUN"):
		t.Skipf("this platform has no GODEBUG=fips140=only: %s", out)
	case err != nil || !strings.Contains(string(out), "--- PASS"):
		t.Fatalf("under GODEBUG=fips140=only: %v: %s", err, out)
	}
	return false
}
