// Package bubble helps tests that run in a bubble of testing/synctest, where time is fake.
package bubble

import "time"

// Elapse lets d go by on the fake clock of the bubble.
func Elapse(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // fake time
