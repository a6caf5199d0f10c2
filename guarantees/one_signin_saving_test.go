package guarantees_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/lendingtest"
)

// A store that hangs only when it saves must not keep the lease from the other processes until
// their token has expired.
func TestSavingDoesNotUseUpTheLifeOfTheToken(t *testing.T) {
	const life = 20 * time.Second // it is used for 18 s, and refreshed after 12 to 15
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		store, took := newHookedStore(), time.Duration(0)
		client := fake.SignIn(t, service, nil, lending.WithTokenStore(store))
		require.NoError(t, read(t.Context(), client))
		bubble.Elapse(15 * time.Second)
		store.before(func(ctx context.Context, step string) error {
			if step == "save" {
				start := time.Now()
				<-ctx.Done()
				took = time.Since(start)
			}
			return ctx.Err()
		})
		require.NoError(t, read(t.Context(), client))
		bubble.Elapse(6 * time.Second)
		synctest.Wait()
		assert.Equal(t, 1, service.Arrived(fake.RefreshRoute))
		assert.NotZero(t, took)
		assert.LessOrEqual(t, took, time.Second/2)
	}, lendingtest.WithTokenLifetime(life))
}

func TestSessionPrintsWhetherItIsSignedIn(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		client := fake.SignIn(t, service, nil)
		assert.Equal(t, "lending session: not signed in", fmt.Sprint(client.Session()))
		require.NoError(t, read(t.Context(), client))
		assert.Equal(t, "lending session: signed in", fmt.Sprint(client.Session()))
		bubble.Elapse(time.Hour)
		assert.Equal(t, "lending session: not signed in", fmt.Sprint(client.Session()))
	})
	assert.Equal(t, "<nil>", fmt.Sprint(wire.NewClient(t, "https://lending.example").Session()))
}
