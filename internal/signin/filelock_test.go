//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package signin_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/lendingtest"
)

// A process that hangs with the file locked must not hang the others.
func TestFileStoreIsLocked(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		path := filepath.Join(t.TempDir(), "token")
		lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
		require.NoError(t, err)
		defer lock.Close()
		require.NoError(t, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX))

		client := fake.SignIn(t, service, nil, lending.WithTokenStore(fileStore(t, path)))
		start := time.Now()
		err = read(t.Context(), client)
		require.ErrorContains(t, err, "the token store: deadline exceeded")
		require.Less(t, time.Since(start), 6*time.Second)

		bubble.Elapse(time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, read(ctx, client), context.DeadlineExceeded)
		start = time.Now()
		client.Close()
		require.Less(t, time.Since(start), time.Second)
		require.Zero(t, service.Arrived(fake.LoginRoute))
	})
}

// Two stores of one file are to each other like two processes.
func TestFileStoreOfTwoProcesses(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "token")
	stores := []lending.TokenStore{fileStore(t, path), fileStore(t, path)}
	for round := range 50 {
		var won atomic.Int32
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				owner := fmt.Sprint(round, i)
				if _, err := stores[i%2].Acquire(t.Context(), owner, time.Minute); err == nil {
					won.Add(1)
				} else {
					assert.ErrorIs(t, err, lending.ErrLeaseHeld)
				}
			})
		}
		all.Wait()
		require.EqualValues(t, 1, won.Load())
		for i := range 8 {
			require.NoError(t, stores[0].Release(t.Context(), fmt.Sprint(round, i)))
		}
	}
}
