//go:build !unix

package guarantees_test

import "time"

// processor returns 0: what a process has used is not told there as it is on Unix.
func processor() time.Duration { return 0 }
