//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package filelock

import (
	"context"
	"os"
	"syscall"
	"time"
)

// Lock locks file, and waits until other processes unlock it or ctx ends: the system's own wait
// would not end with ctx. Closing the file, or the end of the process, unlocks the file.
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
