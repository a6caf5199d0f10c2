//go:build race

package lending_test

// raceDetector changes how much is allocated.
const raceDetector = true
