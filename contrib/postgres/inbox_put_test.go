package lendingpostgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/webhooktest"
	"github.com/lendingapi/lending-go/webhook"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func numbered(n int) *webhook.Event { return event(lending.EventName(fmt.Sprint(n))) }

// A transaction that puts an event delays no Put of another event.
func TestPutTxDelaysOnlyItsOwnEvent(t *testing.T) {
	t.Parallel()
	pool := migrated(t, func(c *pgxpool.Config) { c.MaxConns = 20 })
	inbox := inboxOf(pool, nil)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	var held, putting sync.WaitGroup
	const holds = 5
	for n := range holds {
		require.NoError(t, inbox.PutTx(t.Context(), tx, numbered(n)))
		held.Go(func() { assert.NoError(t, inbox.Put(t.Context(), numbered(n))) })
	}
	waitForLocks(t, pool, holds)
	for n := range 30 {
		putting.Go(func() { assert.NoError(t, inbox.Put(t.Context(), numbered(holds+n))) })
	}
	putting.Wait()
	require.ErrorIs(t, inbox.PutTx(t.Context(), tx, numbered(holds)), webhook.ErrDuplicate, "the transaction goes on")
	require.NoError(t, tx.Rollback(t.Context()))
	held.Wait()
	webhooktest.WantCounts(t, inbox, webhook.InboxCounts{Waiting: holds + 30})
}

// Two processes put the same events in random order, while connections break, contexts end, and the
// server is killed. Put tells no untruth, and no event is there twice.
func TestPutsUnderFaults(t *testing.T) {
	t.Parallel()
	cluster := runServer(t)
	url := migratedURL(t, databaseIn(t, cluster))
	const events = 150
	var accepted [events]atomic.Int32
	var putting sync.WaitGroup
	for range 2 {
		proxy := newProxy(t, url)
		inbox := inboxOf(connect(t, proxy.url, func(c *pgxpool.Config) { c.MaxConns = 10 }), nil)
		for i, n := range rand.Perm(events) {
			putting.Go(func() {
				for known := false; !known; {
					ctx, cancel := t.Context(), func() {}
					switch rand.N(8) {
					case 0:
						proxy.requests.Add(1)
					case 1:
						proxy.answers.Add(1)
					case 2:
						ctx, cancel = context.WithTimeout(ctx, rand.N(20*time.Millisecond))
					}
					err := inbox.Put(ctx, numbered(n))
					cancel()
					if err == nil {
						accepted[n].Add(1)
					}
					known = err == nil || errors.Is(err, webhook.ErrDuplicate)
				}
			})
			if i == events/2 {
				require.NoError(t, cluster.restart())
			}
		}
	}
	putting.Wait()
	inbox := inboxOf(connect(t, url), nil)
	webhooktest.WantCounts(t, inbox, webhook.InboxCounts{Waiting: events})
	for n := range events {
		require.LessOrEqual(t, accepted[n].Load(), int32(1))
		require.ErrorIs(t, inbox.Put(t.Context(), numbered(n)), webhook.ErrDuplicate)
	}
}
