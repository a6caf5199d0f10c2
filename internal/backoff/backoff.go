// Package backoff says how long to wait between tries, and waits.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// After returns how long to wait after so many failures: first after one, doubled after each
// further failure, at most most, and of that a random part between half and all, so that
// processes that failed together do not come back together.
func After(failures int, first, most time.Duration) time.Duration {
	d := Doubled(failures, first, most)
	return d/2 + rand.N(d/2+1)
}

// Doubled is [After] without the random part.
func Doubled(failures int, first, most time.Duration) time.Duration {
	d := max(0, min(first, most))
	for ; failures > 1 && d > 0 && d < most; failures-- {
		d += min(d, most-d)
	}
	return d
}

// Sleep waits for d or until ctx ends, and returns the error of ctx.
func Sleep(ctx context.Context, d time.Duration) error { return Wait(ctx, d, nil) }

// Wait is [Sleep] that also ends when wake is closed or sends.
func Wait(ctx context.Context, d time.Duration, wake <-chan struct{}) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-ctx.Done():
	}
	return ctx.Err()
}
