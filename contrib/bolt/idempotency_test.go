package lendingbolt_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/lendingtest/storetest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	lendingbolt "github.com/lendingapi/lending-go/contrib/bolt"
)

func openIdempotency(t *testing.T, path string) *lendingbolt.IdempotencyStore {
	t.Helper()
	entries, err := lendingbolt.OpenIdempotencyStore(path, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = entries.Close() })
	return entries
}

func TestIdempotencyStoreKeepsItsContract(t *testing.T) {
	t.Parallel()
	storetest.IdempotencyStore(t, func(t *testing.T) func() store.Store {
		t.Helper()
		path, closed := filepath.Join(t.TempDir(), "log"), func() error { return nil }
		return func() store.Store {
			require.NoError(t, closed())
			entries := openIdempotency(t, path)
			closed = entries.Close
			return entries
		}
	})
}

func sent(key, lock string) store.Entry {
	return store.Entry{Key: key, State: store.Sent, Lock: lock, Data: []byte("data of " + key)}
}

func TestIdempotencyFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	entries := openIdempotency(t, path)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	_, err = lendingbolt.OpenIdempotencyStore(path, &lendingbolt.IdempotencyStoreOptions{Wait: 20 * time.Millisecond})
	require.EqualError(t, err, "lendingbolt: open: another process has the file open; "+
		"stop that process or use another file")
	require.NoError(t, entries.Save(t.Context(), sent("a", "")))
	require.NoError(t, entries.Close())
	require.Error(t, entries.Save(t.Context(), sent("b", "")))
	_, err = entries.Load(t.Context(), "a")
	require.Error(t, err, "nil would say that the command was never sent")
	_, err = entries.List(t.Context(), store.Filter{States: []store.State{store.Sent}, Limit: 1})
	require.Error(t, err)
	require.NotContains(t, fmt.Sprintf("%+v %#v", entries, entries), path)
	require.NoError(t, os.WriteFile(path, []byte("no database"), 0o600))
	_, err = lendingbolt.OpenIdempotencyStore(path, nil)
	require.ErrorContains(t, err, "lendingbolt: open: ")
}

// edit changes a closed file.
func edit(t *testing.T, path string, change func(tx *bbolt.Tx) error) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(change))
	require.NoError(t, db.Close())
}

// moveClock moves the clock of the machine for the next process.
func moveClock(t *testing.T, path string, by time.Duration) {
	t.Helper()
	edit(t, path, func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte("idempotency states"))
		return b.SetSequence(b.Sequence() - uint64(by))
	})
}

// A clock that is set back makes no entry older, and ages continue from their last value.
func TestIdempotencyClockSetBack(t *testing.T) {
	t.Parallel()
	path, start := filepath.Join(t.TempDir(), "log"), time.Now()
	entries := openIdempotency(t, path)
	require.NoError(t, entries.Save(t.Context(), sent("a", "")))
	age := func() time.Duration {
		t.Helper()
		entry, err := entries.Load(t.Context(), "a")
		require.NoError(t, err)
		require.GreaterOrEqual(t, entry.Age, time.Duration(0))
		return entry.Age
	}
	reopen := func(moved time.Duration) {
		t.Helper()
		require.NoError(t, entries.Close())
		moveClock(t, path, moved)
		entries = openIdempotency(t, path)
	}
	reopen(-time.Hour)
	require.LessOrEqual(t, age(), time.Since(start))
	before := age()
	require.Eventually(t, func() bool { return age() > before+20*time.Millisecond }, time.Minute, 5*time.Millisecond)
	require.NoError(t, entries.Save(t.Context(), sent("b", "")))
	reopen(-time.Hour)
	require.NoError(t, entries.Save(t.Context(), sent("c", "")))
	require.LessOrEqual(t, age(), time.Since(start))
	listed, err := entries.List(t.Context(), store.Filter{States: []store.State{store.Sent}, Limit: 3})
	require.NoError(t, err)
	require.Equal(t, "b", listed[1].Key)
	require.Equal(t, "c", listed[2].Key, "it was saved last, whatever the clock showed")

	reopen(time.Hour) // between two processes: as long as it takes to start the next one, as far as anybody can tell
	require.InDelta(t, time.Hour, age(), float64(time.Minute))
	require.NoError(t, entries.Save(t.Context(), store.Entry{Key: "a", Revision: 1, State: store.Sent}))
	require.LessOrEqual(t, age(), time.Since(start))

	require.NoError(t, entries.Close())
	edit(t, path, func(tx *bbolt.Tx) error { // the work of no process
		b := tx.Bucket([]byte("idempotency entries"))
		return b.SetSequence(b.Sequence() - uint64(2*time.Hour))
	})
	entries = openIdempotency(t, path)
	require.Zero(t, age())
}

// An unreadable entry is an error, not a missing entry: its mutation is not sent.
func TestIdempotencyEntryThatCannotBeRead(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	entries := openIdempotency(t, path)
	require.NoError(t, entries.Save(t.Context(), sent("a", "lock of a")))
	require.NoError(t, entries.Save(t.Context(), sent("b", "")))
	require.NoError(t, entries.Close())
	var whole []byte
	edit(t, path, func(tx *bbolt.Tx) error {
		whole = bytes.Clone(tx.Bucket([]byte("idempotency entries")).Get([]byte("a")))
		return nil
	})
	spoilt := [][]byte{{}, {1}, whole[:16], whole[:18], whole[:24]}
	spoilt = append(spoilt, append([]byte{0}, whole[1:]...), append([]byte{3}, whole[1:]...))
	for _, value := range spoilt {
		reason := store.ErrCorrupt.Error()
		if len(value) > 0 && value[0] == 3 {
			reason = "the entry was written by a newer release, at least v0.3; update this replica"
		}
		edit(t, path, func(tx *bbolt.Tx) error {
			return tx.Bucket([]byte("idempotency entries")).Put([]byte("a"),
				value)
		})
		entries := openIdempotency(t, path)
		_, err := entries.Load(t.Context(), "a")
		require.EqualError(t, err, reason)
		for revision := range int64(2) {
			require.EqualError(t, entries.Save(t.Context(), store.Entry{Key: "a", Revision: revision}), reason)
		}
		for _, prefix := range []string{"", "a"} {
			filter := store.Filter{Prefix: prefix, States: []store.State{store.Sent}, Limit: 2}
			listed, err := entries.List(t.Context(), filter)
			require.NoError(t, err)
			require.Len(t, listed, 2-len(prefix))
			require.Equal(t, "a", listed[0].Key)
			require.Nil(t, listed[0].Data, "it cannot be read")
		}
		require.NoError(t, entries.Close())
	}
}

// Calls return at the end of their context. A Save that has not begun by then is not made later.
func TestIdempotencyReturnsWhileTheDiskIsBusy(t *testing.T) {
	t.Parallel()
	entries := openIdempotency(t, filepath.Join(t.TempDir(), "log"))
	var busy sync.WaitGroup
	var ended atomic.Bool
	entry := sent("large", "")
	entry.Data = bytes.Repeat([]byte("x"), 64<<20) // takes the disk a while
	busy.Go(func() {
		defer ended.Store(true)
		assert.NoError(t, entries.Save(t.Context(), entry))
	})
	var left []string // keys of Saves without a waiting caller
	for i := 0; !ended.Load(); i++ {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		key := fmt.Sprint("key ", i)
		err := entries.Save(ctx, sent(key, ""))
		cancel()
		if err != nil {
			require.ErrorIs(t, err, context.DeadlineExceeded)
			left = append(left, key)
		}
	}
	busy.Wait()
	require.Greater(t, len(left), 5, "each waited for the disk")
	require.NoError(t, entries.Save(t.Context(), sent("last", "")))
	made := 0
	for _, key := range left {
		entry, err := entries.Load(t.Context(), key)
		require.NoError(t, err)
		if entry != nil {
			made++
		}
	}
	require.Less(t, made, len(left)/2, "only those whose commit was under way are there")
}
