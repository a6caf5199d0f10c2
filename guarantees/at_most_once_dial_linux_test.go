package guarantees_test

import (
	"context"
	"fmt"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/wire"
)

// hangingDial returns the address of a listener whose queue is full: the system answers no further
// connection.
func hangingDial(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = syscall.Close(fd) })
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	require.NoError(t, syscall.Listen(fd, 0))
	bound, err := syscall.Getsockname(fd)
	require.NoError(t, err)
	address := fmt.Sprintf("127.0.0.1:%d", bound.(*syscall.SockaddrInet4).Port)
	for {
		conn, err := net.DialTimeout("tcp", address, 100*time.Millisecond)
		if err != nil {
			return address
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
}

// TestDeadlineThatEndsTheDialIsTold has the deadline of mutations end while they connect.
func TestDeadlineThatEndsTheDialIsTold(t *testing.T) {
	t.Parallel()
	client := wire.NewClient(t, "https://"+hangingDial(t), withToken)
	for range 30 {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		err := client.Applications.Cancel(ctx, catalog.Application)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
	}
}
