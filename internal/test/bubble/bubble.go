// Package bubble helps tests that run in a bubble of testing/synctest, where time is fake.
package bubble

import "time"

// Elapse waits until the fake clock of the bubble has advanced by d.
func Elapse(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // fake time
