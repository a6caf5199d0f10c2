package handover_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/internal/handover"
)

func TestTake(t *testing.T) {
	failure := errors.New("a failure")
	for _, tt := range []struct {
		name       string
		takes      time.Duration
		takeErr    error
		leaveAfter time.Duration
		want       error
		givenBack  bool
	}{
		{"taken", time.Second, nil, time.Minute, nil, false},
		{"failed", time.Second, failure, time.Minute, failure, false},
		{"the caller has left before", time.Second, nil, 0, context.Canceled, false},
		{"the caller leaves", time.Minute, nil, 59 * time.Second, context.Canceled, true},
		{"the caller leaves, and take may have taken", time.Minute, failure, 59 * time.Second, context.Canceled, true},
		{"the caller leaves, and take does not end", time.Hour, failure, time.Second, context.Canceled, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				if tt.leaveAfter == 0 {
					cancel()
				}
				time.AfterFunc(tt.leaveAfter, cancel)
				start, taken, givenBack := time.Now(), false, false
				err := handover.Take(ctx, func(ctx context.Context) error {
					taken = true
					select {
					case <-time.After(tt.takes):
						return tt.takeErr
					case <-ctx.Done():
						return ctx.Err()
					}
				}, func(ctx context.Context) error {
					givenBack = true
					return ctx.Err()
				})
				require.ErrorIs(t, err, tt.want)
				require.Equal(t, min(tt.takes, tt.leaveAfter), time.Since(start), "the caller waits no longer")
				time.Sleep(time.Until(start.Add(tt.leaveAfter + handover.Grace))) //nolint:forbidigo // virtual
				synctest.Wait()
				require.Equal(t, tt.givenBack, givenBack)
				require.Equal(t, tt.leaveAfter > 0, taken)
			})
		})
	}
}
