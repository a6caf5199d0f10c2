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
	"github.com/stretchr/testify/require"

	lendingbolt "github.com/lendingapi/lending-go/contrib/bolt"
)

const fullJournalVariable = "LENDING_BOLT_FULL_JOURNAL" // the file, for the process of TestJournalOnAFullDisk

// A file that may not grow refuses a Save, keeps what it has, and goes on when there is
// room again.
func TestJournalOnAFullDisk(t *testing.T) {
	t.Parallel()
	process := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFullJournalChild$")
	process.Env = append(os.Environ(), fullJournalVariable+"="+filepath.Join(t.TempDir(), "journal"))
	output, err := process.CombinedOutput()
	require.NoError(t, err, "%s", output)
}

func TestFullJournalChild(t *testing.T) {
	path := os.Getenv(fullJournalVariable)
	if path == "" {
		t.Skip("only in the process that TestJournalOnAFullDisk starts")
	}
	signal.Ignore(syscall.SIGXFSZ)
	store := openJournal(t, path)
	var now syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &now))
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1 << 20, Max: now.Max}))
	numbered := func(n int) lending.JournalEntry {
		entry := sent(fmt.Sprint("key ", n), fmt.Sprint("scope ", n))
		entry.Data = []byte(strings.Repeat("x", 2000))
		return entry
	}
	saved := 0
	var err error
	for ; err == nil && saved < 5000; saved++ {
		err = store.Save(t.Context(), numbered(saved))
	}
	saved-- // the last was refused
	require.Error(t, err)
	check := func() {
		entries, err := store.List(t.Context(), lending.JournalFilter{States: []lending.CommandState{lending.CommandSent}, Limit: 5000})
		require.NoError(t, err)
		require.Len(t, entries, saved)
		refused, err := store.Load(t.Context(), numbered(saved).Key)
		require.NoError(t, err)
		require.Nil(t, refused, "it was refused")
	}
	for range 3 {
		err = store.Save(t.Context(), numbered(saved))
		require.Error(t, err)
		require.NotErrorIs(t, err, lending.ErrJournalConflict, "it was remembered")
		check()
	}
	require.NoError(t, store.Close())
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &now))
	store, err = lendingbolt.OpenJournalStore(path, nil)
	require.NoError(t, err)
	check()
	require.NoError(t, store.Save(t.Context(), numbered(saved)))
	require.NoError(t, store.Close())
}
