//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd)

package filelock

import (
	"context"
	"os"
)

// Lock does nothing here: the file is for a single process.
func Lock(context.Context, *os.File) error { return nil }
