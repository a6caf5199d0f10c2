// Package longrun marks the tests that run only with LENDING_TEST_LONG=1, as in make flaky.
package longrun

import (
	"os"
	"testing"
)

// Kills skips a test with kills of a store's processes, except in a long run: contrib/postgres
// proves the same rule in every run.
func Kills(t *testing.T) {
	t.Helper()
	if !Wanted() {
		t.Skip("LENDING_TEST_LONG is not set; contrib/postgres kills its processes in every run")
	}
}

// Wanted reports whether this is a long run.
func Wanted() bool { return os.Getenv("LENDING_TEST_LONG") != "" }
