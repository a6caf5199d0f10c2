// Package backoff computes the waits between tries, and waits.
package backoff

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// After returns the wait after so many failures: first after the first failure, doubled after
// each further failure, at most most, and randomly between half and all of this, so processes
// that failed together do not return together.
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

// mostAsked is the longest believable Retry-After.
const mostAsked = 24 * time.Hour

// RetryAfter returns the wait of the Retry-After header, in seconds or as a date (RFC 9110,
// 10.2.3): at most 24 hours, 0 without the header.
func RetryAfter(header http.Header) time.Duration {
	text := header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(text, 10, 64); err == nil {
		return time.Duration(min(seconds, uint64(mostAsked/time.Second))) * time.Second
	} else if errors.Is(err, strconv.ErrRange) {
		return mostAsked
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(header.Get("Date")) // of the service's own clock
	if err != nil {
		now = time.Now()
	}
	return min(max(at.Sub(now), 0), mostAsked)
}
