// Package seeds makes a failure of a random test repeatable: environment variables hold the
// first seed and the number of runs.
package seeds

import (
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// Variable is the environment variable with the seed of the first run.
const Variable = "LENDING_TEST_SEED"

// FromEnvironment returns the number in the variable name, or otherwise if the variable is not
// set.
func FromEnvironment(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, name)
	return n
}
