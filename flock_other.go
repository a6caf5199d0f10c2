//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd)

package lending

import (
	"context"
	"os"
)

// flock does nothing here: a token file is for one process.
func flock(context.Context, *os.File) error { return nil }
