//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package signin_test

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

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
