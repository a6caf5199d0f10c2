package promises_test

import (
	"testing"

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
