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

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/webhooktest"
	"github.com/lendingapi/lending-go/webhook"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// statements counts the statements of a pool.
type statements struct{ atomic.Int32 }

func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	s.Add(1)
	return ctx
}

func (*statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func numbered(n any) *webhook.Event { return event(lending.EventName(fmt.Sprint(n))) }

// Puts at the same moment share transactions, also of equal events, and each has its own result.
func TestPutsShareATransaction(t *testing.T) {
	t.Parallel()
	var sent statements
	pool := migrated(t, func(c *pgxpool.Config) { c.MaxConns, c.ConnConfig.Tracer = 1, &sent })
	inbox := inboxOf(pool, nil)
	require.NoError(t, inbox.Put(t.Context(), numbered(0)))
	before := sent.Load()
	const events, each = 100, 3
	var stored, again [events]atomic.Int32
	conn, err := pool.Acquire(t.Context()) // all calls begin while the pool has no free connection
	require.NoError(t, err)
	var begun, ended sync.WaitGroup
	begun.Add(events * each)
	for n := range events * each {
		ended.Go(func() {
			begun.Done()
			switch err := inbox.Put(t.Context(), numbered(n%events)); {
			case err == nil:
				stored[n%events].Add(1)
			case assert.ErrorIs(t, err, webhook.ErrDuplicate):
				again[n%events].Add(1)
			}
		})
	}
	begun.Wait()
	conn.Release()
	ended.Wait()
	require.Less(t, sent.Load()-before, int32(events), "statements for three times as many Puts")
	webhooktest.WantCounts(t, inbox, webhook.InboxCounts{Waiting: events})
	for n := range events {
		want := int32(min(n, 1)) // the first was there
		require.Equal(t, want, stored[n].Load(), "%d", n)
		require.Equal(t, each-want, again[n].Load(), "%d", n)
	}
}

// Calls whose contexts end when they could begin a transaction leave it to others.
func TestCanceledPutsDelayNoOther(t *testing.T) {
	t.Parallel()
	pool := migrated(t, func(c *pgxpool.Config) { c.MaxConns = 1 })
	inbox := inboxOf(pool, nil)
	for round := range 100 {
		conn, err := pool.Acquire(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var begun, ended sync.WaitGroup
		begun.Add(20)
		for n := range 20 {
			ended.Go(func() {
				begun.Done()
				_ = inbox.Put(ctx, numbered(n))
			})
		}
		begun.Wait()
		go cancel()
		conn.Release()
		ended.Wait()
		require.NoError(t, inbox.Put(t.Context(), numbered(100+round)))
	}
}

// A transaction that puts an event delays no Put of another event.
func TestPutTxDelaysOnlyItsOwnEvent(t *testing.T) {
	t.Parallel()
	pool := migrated(t, func(c *pgxpool.Config) { c.MaxConns = 20 })
	inbox := inboxOf(pool, nil)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	var held, putting sync.WaitGroup
	const holds = 5 // more than transactions in progress
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

// An event that the server refuses fails its own Put.
func TestARefusedEventFailsNoOther(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	_, err := pool.Exec(t.Context(), "ALTER TABLE lending_inbox ADD CHECK (position('poison'::bytea IN body) = 0)")
	require.NoError(t, err)
	inbox := inboxOf(pool, nil)
	var putting sync.WaitGroup
	for n := range 100 {
		putting.Go(func() {
			if n%20 == 7 {
				assert.ErrorContains(t, inbox.Put(t.Context(), numbered(fmt.Sprint("poison ", n))), "23514")
				return
			}
			assert.NoError(t, inbox.Put(t.Context(), numbered(n)))
		})
	}
	putting.Wait()
	webhooktest.WantCounts(t, inbox, webhook.InboxCounts{Waiting: 95})
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
