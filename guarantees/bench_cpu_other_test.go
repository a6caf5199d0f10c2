//go:build !unix

package guarantees_test

import "time"

// processor returns 0: these systems do not report processor time like Unix.
func processor() time.Duration { return 0 }
