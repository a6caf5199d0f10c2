package backoff_test

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/internal/backoff"
)

func TestDoubled(t *testing.T) {
	for _, tt := range []struct {
		failures          int
		first, most, want time.Duration
	}{
		{-1, time.Second, time.Minute, time.Second},
		{0, time.Second, time.Minute, time.Second},
		{1, time.Second, time.Minute, time.Second},
		{2, time.Second, time.Minute, 2 * time.Second},
		{6, time.Second, time.Minute, 32 * time.Second},
		{7, time.Second, time.Minute, time.Minute},
		{math.MaxInt, time.Second, time.Minute, time.Minute},
		{math.MaxInt, time.Second, math.MaxInt64, math.MaxInt64}, // no overflow on the way
		{3, time.Minute, time.Second, time.Second},
		{math.MaxInt, 0, time.Second, 0},
	} {
		t.Run(fmt.Sprint(tt.failures), func(t *testing.T) {
			require.Equal(t, tt.want, backoff.Doubled(tt.failures, tt.first, tt.most), "%+v", tt)
			for range 100 {
				got := backoff.After(tt.failures, tt.first, tt.most)
				require.GreaterOrEqual(t, got, tt.want/2)
				require.LessOrEqual(t, got, tt.want)
			}
		})
	}
}

func TestAfterSpreadsWaits(t *testing.T) {
	seen := map[time.Duration]bool{}
	for range 20 {
		seen[backoff.After(5, time.Second, time.Hour)] = true
	}
	require.Greater(t, len(seen), 10)
}

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		require.NoError(t, backoff.Sleep(t.Context(), time.Hour))
		require.Equal(t, time.Hour, time.Since(start))

		wake := make(chan struct{})
		time.AfterFunc(time.Minute, func() { close(wake) })
		require.NoError(t, backoff.Wait(t.Context(), time.Hour, wake))
		require.Equal(t, time.Hour+time.Minute, time.Since(start))

		start = start.Add(time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, backoff.Sleep(ctx, time.Hour), context.DeadlineExceeded)
		require.Equal(t, time.Hour+time.Minute, time.Since(start))
		for range 100 {
			require.Error(t, backoff.Sleep(ctx, 0), "the context has ended, whichever is noticed first")
		}
	})
}

// No header makes a caller wait for less than nothing or more than a day.
func FuzzRetryAfter(f *testing.F) {
	for _, seed := range []string{
		"", "0", "120", "-1", "9223372037", "18446744073709551616", "1.5", "+5", "Fri, 31 Dec 1999 23:59:59 GMT",
		"Fri, 31 Dec 9999 23:59:59 GMT", "Friday, 31-Dec-99 23:59:59 GMT", "\x00",
	} {
		f.Add(seed, "Fri, 31 Dec 1999 23:59:00 GMT")
		f.Add(seed, "")
	}
	f.Fuzz(func(t *testing.T, text, date string) {
		wait := backoff.RetryAfter(http.Header{"Retry-After": {text}, "Date": {date}})
		assert.GreaterOrEqual(t, wait, time.Duration(0))
		assert.LessOrEqual(t, wait, 24*time.Hour)
	})
}
