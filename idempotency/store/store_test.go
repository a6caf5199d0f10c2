package store_test

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/leak"
	"github.com/lendingapi/lending-go/lendingtest/storetest"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestMemoryStoreKeepsItsContract(t *testing.T) {
	t.Parallel()
	storetest.IdempotencyStore(t, func(t *testing.T) func() store.Store {
		t.Parallel()
		entries := store.NewMemory()
		return func() store.Store { return entries }
	})
}

func TestEncryptedStoreStoreKeepsItsContract(t *testing.T) {
	t.Parallel()
	storetest.IdempotencyStore(t, func(t *testing.T) func() store.Store {
		t.Parallel()
		entries := store.NewMemory()
		return func() store.Store {
			encrypted, err := store.NewEncrypted(entries, bytes.Repeat([]byte{7}, 32))
			require.NoError(t, err)
			return encrypted
		}
	})
}

// Entries that were saved within microseconds are listed in the order of saving: all ages are
// those of one instant.
func TestMemoryListsTheOldestFirst(t *testing.T) {
	memory := store.NewMemory()
	var want []string
	for i := range 1000 {
		key := fmt.Sprintf("%04d", i)
		require.NoError(t, memory.Save(t.Context(), store.Entry{Key: key, State: store.Done, Data: []byte("{}")}))
		want = append(want, key)
	}
	entries, err := memory.List(t.Context(), store.Filter{States: []store.State{store.Done}, Limit: len(want)})
	require.NoError(t, err)
	var got []string
	for _, entry := range entries {
		got = append(got, entry.Key)
	}
	require.Equal(t, want, got)
	require.True(t, slices.IsSortedFunc(entries, func(a, b store.Entry) int { return cmp.Compare(b.Age, a.Age) }))
}

func TestErasedCustomerIsInNoDump(t *testing.T) {
	t.Parallel()
	memory := store.NewMemory()
	storetest.Erase(t, memory, nil, func() (all string) {
		states := []store.State{store.Free, store.Done, store.Forgotten}
		entries, err := memory.List(t.Context(), store.Filter{States: states, Limit: 100})
		require.NoError(t, err)
		for _, entry := range entries {
			all += entry.Key + entry.Lock + string(entry.Data)
		}
		return all
	})
}
