package store_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/idempotency/store"
)

// TestEncryptedKeyIsChanged has a process with the old key beside one with both: they share
// the locks, and each reads what it has the key of.
func TestEncryptedKeyIsChanged(t *testing.T) {
	inner := store.NewMemory()
	with := func(keys ...byte) store.Store {
		var all [][]byte
		for _, key := range keys {
			all = append(all, bytes.Repeat([]byte{key}, 32))
		}
		entries, err := store.NewEncrypted(inner, all[0], all[1:]...)
		require.NoError(t, err)
		return entries
	}
	entry := func(key string) store.Entry {
		return store.Entry{Key: key, State: store.Sent, Lock: "lock of " + key, Data: []byte("data of " + key)}
	}
	older, both := with(1), with(2, 1)
	require.NoError(t, older.Save(t.Context(), entry("a")))
	require.NoError(t, both.Save(t.Context(), entry("b")))
	for _, key := range []string{"a", "b"} {
		for _, entries := range []store.Store{both, with(1, 2, 1)} {
			loaded, err := entries.Load(t.Context(), key)
			require.NoError(t, err)
			require.Equal(t, "data of "+key, string(loaded.Data))
		}
		for _, entries := range []store.Store{older, both} {
			taker := entry("taker")
			taker.Lock = "lock of " + key
			var held *store.LockedError
			require.ErrorAs(t, entries.Save(t.Context(), taker), &held)
			require.Equal(t, key, held.Key)
		}
	}
	_, err := older.Load(t.Context(), "b")
	require.ErrorIs(t, err, store.ErrCorrupt, "it is written with the new key")
	listed, err := older.List(t.Context(), store.Filter{States: []store.State{store.Sent}, Limit: 2})
	require.NoError(t, err)
	require.Equal(t, "data of a", string(listed[0].Data))
	require.Nil(t, listed[1].Data)
	n, err := both.Replace(t.Context(), []store.Entry{{Key: "a", Revision: 1, State: store.Done, Data: []byte("new")}})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	_, err = older.Load(t.Context(), "a")
	require.ErrorIs(t, err, store.ErrCorrupt, "it is written again with the new key")
}

func TestEncryptedStoreNeedsAStoreAndKeys(t *testing.T) {
	key := bytes.Repeat([]byte{1}, 32)
	for _, test := range []struct {
		name  string
		inner store.Store
		keys  [][]byte
		want  string
	}{
		{"no store", nil, [][]byte{key}, "lending/idempotency: NewEncrypted: the store must not be nil"},
		{"no key", store.NewMemory(), [][]byte{nil}, "lending/idempotency: NewEncrypted: the key must be 32 random bytes"},
		{
			"a short older key", store.NewMemory(),
			[][]byte{key, key[1:]},
			"lending/idempotency: NewEncrypted: the key must be 32 random bytes",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := store.NewEncrypted(test.inner, test.keys[0], test.keys[1:]...)
			require.EqualError(t, err, test.want)
		})
	}
}

// TestEncryptedEntryIsOfItsState copies the data of an entry to another key, revision or state.
func TestEncryptedEntryIsOfItsState(t *testing.T) {
	encrypted := func() (inner, entries store.Store) {
		inner = store.NewMemory()
		entries, err := store.NewEncrypted(inner, bytes.Repeat([]byte("k"), 32))
		require.NoError(t, err)
		return inner, entries
	}
	for _, test := range []struct {
		name   string
		change func(*store.Entry)
		want   error
	}{
		{"unchanged", func(*store.Entry) {}, nil},
		{"another key", func(e *store.Entry) { e.Key = "other" }, store.ErrCorrupt},
		{"a later revision", func(e *store.Entry) { e.Revision++ }, store.ErrCorrupt},
		{"another state", func(e *store.Entry) { e.State = store.Done }, store.ErrCorrupt},
		{"a changed byte", func(e *store.Entry) { e.Data[20] ^= 1 }, store.ErrCorrupt},
		{"no data", func(e *store.Entry) { e.Data = nil }, store.ErrCorrupt},
	} {
		t.Run(test.name, func(t *testing.T) {
			from, entries := encrypted()
			entry := store.Entry{Key: "key", State: store.Free, Lock: "lock", Data: []byte("data")}
			require.NoError(t, entries.Save(t.Context(), entry))
			saved, err := from.Load(t.Context(), entry.Key)
			require.NoError(t, err)
			test.change(saved)
			to, copied := encrypted()
			for revision := range saved.Revision {
				e := *saved
				e.Revision = revision
				require.NoError(t, to.Save(t.Context(), e))
			}
			loaded, err := copied.Load(t.Context(), saved.Key)
			require.ErrorIs(t, err, test.want)
			if test.want == nil {
				entry.Revision, entry.Age, entry.Position = 1, loaded.Age, loaded.Position
				require.Equal(t, &entry, loaded)
			}
		})
	}
}

// TestEncryptedLocksNeedTheKey saves a lock with two keys. The stored texts differ, so nobody without the key can
// recognize the lock.
func TestEncryptedLocksNeedTheKey(t *testing.T) {
	locks := map[string]bool{"lock": true}
	for _, key := range []string{"a", "b", "a"} {
		inner := store.NewMemory()
		entries, err := store.NewEncrypted(inner, bytes.Repeat([]byte(key), 32))
		require.NoError(t, err)
		require.NoError(t, entries.Save(t.Context(), store.Entry{Key: "key", State: store.Free, Lock: "lock"}))
		saved, err := inner.Load(t.Context(), "key")
		require.NoError(t, err)
		locks[saved.Lock] = true
	}
	require.Len(t, locks, 3, "one of each key, and none that is the plain text")
}
