package guarantees_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest/storetest"
)

func TestMemoryJournalStoreKeepsItsContract(t *testing.T) {
	t.Parallel()
	storetest.JournalStore(t, func(*testing.T) func() lending.JournalStore {
		store := lending.NewMemoryJournalStore()
		return func() lending.JournalStore { return store }
	})
}

func TestEncryptedJournalStoreKeepsItsContract(t *testing.T) {
	t.Parallel()
	storetest.JournalStore(t, func(t *testing.T) func() lending.JournalStore {
		t.Helper()
		store := lending.NewMemoryJournalStore()
		return func() lending.JournalStore {
			encrypted, err := lending.NewEncryptedJournalStore(store, bytes.Repeat([]byte{7}, 32))
			require.NoError(t, err)
			return encrypted
		}
	})
}
