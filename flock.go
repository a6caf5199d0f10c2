//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package lending

import (
	"context"
	"os"
	"syscall"
	"time"
)

// flock waits until no other process has file locked, and locks it, unless ctx ends
// before: the system's own way to wait knows no end. Closing the file,
// or the end of the process, unlocks it.
func flock(ctx context.Context, file *os.File) error {
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err != syscall.EINTR && err != syscall.EWOULDBLOCK {
			return err
		}
		if err := sleep(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
}
