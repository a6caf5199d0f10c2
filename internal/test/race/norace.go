//go:build !race

// Package race tells tests whether the race detector runs: it changes how much is allocated.
package race

// Enabled reports whether the race detector runs.
const Enabled = false
