//go:build unix

package guarantees_test

import (
	"syscall"
	"time"
)

// processor returns how long the processors have worked for this process.
func processor() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
