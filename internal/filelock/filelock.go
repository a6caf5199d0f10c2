//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package filelock

import (
	"context"
	"os"
	"syscall"
	"time"
)

// Lock waits until no other process has file locked, and locks it, unless ctx ends
// before: the system's own way to wait knows no end. Closing the file,
// or the end of the process, unlocks it.
func Lock(ctx context.Context, file *os.File) error {
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err != syscall.EINTR && err != syscall.EWOULDBLOCK {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-again.C:
		}
	}
}
