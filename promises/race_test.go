//go:build race

package promises_test

// raceDetector changes how much is allocated.
const raceDetector = true
