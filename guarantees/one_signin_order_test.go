package guarantees_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/lendingtest"
)

// Of two tokens that were got with the store that of the later lease is the newer, also if
// the clock of whoever got it is behind.
func TestLaterLeaseWinsWhateverTheClocksSay(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		store, other := lending.NewMemoryTokenStore(), lending.NewMemoryTokenStore()
		client := fake.SignIn(t, service, nil, lending.WithTokenStore(store))
		require.NoError(t, read(t.Context(), client))
		bubble.Elapse(time.Minute)
		behind, _, err := takeToken(t.Context(), fake.SignIn(t, service, nil, lending.WithTokenStore(other)))
		require.NoError(t, err)
		later, err := other.Load(t.Context())
		require.NoError(t, err)
		later.Data = lending.NewSecret(string(ahead(t, []byte(later.Data.Reveal()), -5*time.Minute, "issued", "expires")))
		require.NoError(t, store.Save(t.Context(), later))
		bubble.Elapse(50 * time.Minute)
		require.NoError(t, read(t.Context(), client)) // looks into the store before it refreshes
		synctest.Wait()
		got, _, err := takeToken(t.Context(), client)
		require.NoError(t, err)
		assert.Equal(t, behind.Value.Reveal(), got.Value.Reveal())
	})
}
