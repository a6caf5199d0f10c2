//go:build !race

package lending_test

const raceDetector = false
