//go:build !race

package promises_test

const raceDetector = false
