//go:build !race

// Package race tells tests whether the race detector runs, because the detector changes the
// number of allocations.
package race

// Enabled reports whether the race detector runs.
const Enabled = false
