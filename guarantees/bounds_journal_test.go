package guarantees_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/race"
	"github.com/lendingapi/lending-go/internal/test/wire"
)

// TestWithoutAKeyNothingIsAllocated holds that a journal costs a command nothing that has no
// key. The limit is what the command took before there were journals.
func TestWithoutAKeyNothingIsAllocated(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector changes how much is allocated")
	}
	allocated := func(opts ...lending.Option) float64 {
		client, err := lending.New("https://service.example", append(opts, lending.WithTokenSource(lending.StaticToken("test-token")),
			lending.WithHTTPClient(&http.Client{Transport: always("true")}))...)
		require.NoError(t, err)
		defer client.Close()
		return testing.AllocsPerRun(500, func() {
			require.NoError(t, client.Applications.Cancel(background, catalog.Application))
		})
	}
	without := allocated()
	assert.LessOrEqual(t, without, 27.0, "a command")
	assert.LessOrEqual(t, allocated(lending.WithJournal(lending.NewJournal(lending.NewMemoryJournalStore(), nil))), without, "beside a journal")
}

// countedJournal counts what a journal asks of its store.
type countedJournal struct {
	lending.JournalStore
	loads, saves, lists atomic.Int64
}

func (c *countedJournal) Load(ctx context.Context, key string) (*lending.JournalEntry, error) {
	c.loads.Add(1)
	return c.JournalStore.Load(ctx, key)
}

func (c *countedJournal) Save(ctx context.Context, entry lending.JournalEntry) error {
	c.saves.Add(1)
	return c.JournalStore.Save(ctx, entry)
}

func (c *countedJournal) List(ctx context.Context, filter lending.JournalFilter) ([]lending.JournalEntry, error) {
	c.lists.Add(1)
	return c.JournalStore.List(ctx, filter)
}

// TestKeyCostsTwoWrites holds that a command with a key writes once before it is sent and
// once after, whether it is accepted, refused or lost, and that a replay writes nothing.
func TestKeyCostsTwoWrites(t *testing.T) {
	t.Parallel()
	store := &countedJournal{JournalStore: lending.NewMemoryJournalStore()}
	costs := func(client *lending.Client, id lending.ApplicationID, loads, saves int64) {
		t.Helper()
		store.loads.Store(0)
		store.saves.Store(0)
		_ = client.Applications.Cancel(lending.WithKey(t.Context(), id.String()), id)
		assert.Equal(t, loads, store.loads.Load(), "reads of the store")
		assert.Equal(t, saves, store.saves.Load(), "writes to the store")
		assert.Zero(t, store.lists.Load())
	}
	for _, status := range []int{http.StatusOK, http.StatusBadRequest, http.StatusInternalServerError} {
		id := lending.ApplicationID(uuid.New())
		server := httptest.NewServer(wire.Answer(status, "true"))
		client, err := lending.New(server.URL, lending.WithTokenSource(lending.StaticToken("test-token")), lending.WithJournal(lending.NewJournal(store, nil)))
		require.NoError(t, err)
		costs(client, id, 1, 2)
		if status == http.StatusOK {
			costs(client, id, 1, 0)
		}
		_ = client.Close()
		server.Close()
	}
}
