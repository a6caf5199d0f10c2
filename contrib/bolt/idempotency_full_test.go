//go:build linux

package lendingbolt_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/stretchr/testify/require"

	lendingbolt "github.com/lendingapi/lending-go/contrib/bolt"
)

// On a full disk the store refuses a Save and keeps its entries. Saves work again when there is
// room.
func TestIdempotencyOnAFullDisk(t *testing.T) {
	onAFullDisk(t, func(path string, limit func(size uint64)) { idempotencyWhenFull(t, path, limit) })
}

func idempotencyWhenFull(t *testing.T, path string, limit func(size uint64)) {
	t.Helper()
	entries := openIdempotency(t, path)
	limit(1 << 20)
	numbered := func(n int) store.Entry {
		entry := sent(fmt.Sprint("key ", n), fmt.Sprint("lock ", n))
		entry.Data = []byte(strings.Repeat("x", 2000))
		return entry
	}
	saved := 0
	check := func() {
		listed, err := entries.List(t.Context(), store.Filter{States: []store.State{store.Sent}, Limit: 5000})
		require.NoError(t, err)
		require.Len(t, listed, saved)
		refused, err := entries.Load(t.Context(), numbered(saved).Key)
		require.NoError(t, err)
		require.Nil(t, refused, "it was refused")
	}
	for refused := 0; refused < 4 && saved < 5000; {
		err := entries.Save(t.Context(), numbered(saved))
		if err == nil { // also after a refusal: the number of free pages of bbolt varies
			saved++
			continue
		}
		require.NotErrorIs(t, err, store.ErrConflict, "it was remembered")
		refused++
		check()
	}
	require.Less(t, saved, 5000)
	require.NoError(t, entries.Close())
	limit(1 << 40)
	entries, err := lendingbolt.OpenIdempotencyStore(path, nil)
	require.NoError(t, err)
	check()
	require.NoError(t, entries.Save(t.Context(), numbered(saved)))
	require.NoError(t, entries.Close())
}
