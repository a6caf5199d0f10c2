package store_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/lendingtest/storetest"
)

func TestMemoryStoreKeepsItsContract(t *testing.T) {
	t.Parallel()
	storetest.IdempotencyStore(t, func(*testing.T) func() store.Store {
		entries := store.NewMemory()
		return func() store.Store { return entries }
	})
}

func TestEncryptedStoreStoreKeepsItsContract(t *testing.T) {
	t.Parallel()
	storetest.IdempotencyStore(t, func(t *testing.T) func() store.Store {
		t.Helper()
		entries := store.NewMemory()
		return func() store.Store {
			encrypted, err := store.NewEncrypted(entries, bytes.Repeat([]byte{7}, 32))
			require.NoError(t, err)
			return encrypted
		}
	})
}
