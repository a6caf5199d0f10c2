//go:build linux

package lendingbolt_test

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/webhooktest"
	"github.com/lendingapi/lending-go/webhook"
	"github.com/stretchr/testify/require"

	lendingbolt "github.com/lendingapi/lending-go/contrib/bolt"
)

const fullVariable = "LENDING_BOLT_FULL" // the file, for the process of onAFullDisk

// onAFullDisk runs test in a separate process, with the path of a file there. The limit that test
// gets prevents the process from writing larger files.
func onAFullDisk(t *testing.T, test func(path string, limit func(size uint64))) {
	t.Helper()
	if path := os.Getenv(fullVariable); path != "" {
		signal.Ignore(syscall.SIGXFSZ)
		var before syscall.Rlimit
		require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before))
		t.Cleanup(func() { _ = syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before) })
		test(path, func(size uint64) {
			require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: size, Max: before.Max}))
		})
		return
	}
	t.Parallel()
	process := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	process.Env = append(os.Environ(), fullVariable+"="+filepath.Join(t.TempDir(), "file"))
	output, err := process.CombinedOutput()
	require.NoError(t, err, "%s", output)
}

// TestFullDiskRefuses limits the size of the file. The inbox refuses new events without
// remembering them, keeps the accepted events, and accepts events again when there is room.
func TestFullDiskRefuses(t *testing.T) {
	onAFullDisk(t, func(path string, limit func(size uint64)) { refusesWhenFull(t, path, limit) })
}

func refusesWhenFull(t *testing.T, path string, limit func(size uint64)) {
	t.Helper()
	inbox := open(t, path, nil)
	require.NoError(t, inbox.Put(t.Context(), event("first")))
	limit(1 << 20)
	numbered := func(n int) *webhook.Event {
		return event(lending.EventName(fmt.Sprint(n, strings.Repeat("x", 2000))))
	}
	accepted := 1
	for refused := 0; refused < 4 && accepted < 5000; {
		err := inbox.Put(t.Context(), numbered(accepted))
		if err == nil { // also after a refusal: the number of free pages of bbolt varies
			accepted++
			continue
		}
		require.NotErrorIs(t, err, webhook.ErrDuplicate, "it was remembered")
		refused++
	}
	require.Less(t, accepted, 5000)
	webhooktest.WantCounts(t, inbox, webhook.InboxCounts{Waiting: accepted})
	limit(1 << 40)
	require.NoError(t, inbox.Put(t.Context(), numbered(accepted)))
	for range accepted + 1 {
		entry, err := inbox.Take(t.Context())
		require.NoError(t, err)
		require.NoError(t, inbox.Done(t.Context(), entry))
	}
	require.NoError(t, inbox.Close())
	_, err := lendingbolt.OpenInbox(path, nil)
	require.NoError(t, err)
}
