package guarantees_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/race"
	"github.com/lendingapi/lending-go/internal/test/wire"
)

// The limit is the cost of a mutation without a log.
func TestMutationWithoutAKeyCostsNothingMore(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector changes how much is allocated")
	}
	allocated := func(opts ...lending.Option) float64 {
		client := wire.InMemory(t, always("true").RoundTrip, opts...)
		return testing.AllocsPerRun(500, func() {
			require.NoError(t, client.Applications.Cancel(background, catalog.Application))
		})
	}
	without := allocated()
	assert.LessOrEqual(t, without, 27.0, "a command")
	assert.LessOrEqual(t, allocated(lending.WithIdempotency(fake.Must(idempotency.NewLog(store.NewMemory(), nil)))),
		without, "beside a log")
}

// countedStore counts the calls of a log to its store.
type countedStore struct {
	store.Store
	loads, saves, lists atomic.Int64
}

func (c *countedStore) Load(ctx context.Context, key string) (*store.Entry, error) {
	if strings.HasPrefix(key, ":") { // else the log reads its instructions, by time
		c.loads.Add(1)
	}
	return c.Store.Load(ctx, key)
}

func (c *countedStore) Save(ctx context.Context, entry store.Entry) error {
	c.saves.Add(1)
	return c.Store.Save(ctx, entry)
}

func (c *countedStore) List(ctx context.Context, filter store.Filter) ([]store.Entry, error) {
	c.lists.Add(1)
	return c.Store.List(ctx, filter)
}

// A mutation with a key writes once before the request and once after the response, even if the
// response is a rejection or is lost. A replay writes nothing.
func TestKeyCostsTwoWrites(t *testing.T) {
	t.Parallel()
	entries := &countedStore{Store: store.NewMemory()}
	costs := func(client *lending.Client, id lending.ApplicationID, loads, saves int64) {
		t.Helper()
		entries.loads.Store(0)
		entries.saves.Store(0)
		_ = client.Applications.Cancel(lending.WithIdempotencyKey(t.Context(), id.String()), id)
		assert.Equal(t, loads, entries.loads.Load(), "reads of the store")
		assert.Equal(t, saves, entries.saves.Load(), "writes to the store")
		assert.Zero(t, entries.lists.Load())
	}
	for _, status := range []int{http.StatusOK, http.StatusBadRequest, http.StatusInternalServerError} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			id := lending.ApplicationID(uuid.New())
			client := wire.InMemory(t, wire.Reply(status, "true"),
				lending.WithIdempotency(fake.Must(idempotency.NewLog(entries, nil))))
			costs(client, id, 1, 2)
			if status == http.StatusOK {
				costs(client, id, 1, 0)
			}
		})
	}
}
