//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package lending

import (
	"os"
	"syscall"
)

// flock waits until no other process has file locked, and locks it. Closing the file,
// or the end of the process, unlocks it.
func flock(file *os.File) error {
	for {
		if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != syscall.EINTR {
			return err
		}
	}
}
