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
	"github.com/lendingapi/lending-go/internal/test/pgtest"
	"github.com/lendingapi/lending-go/internal/test/webhooktest"
	"github.com/lendingapi/lending-go/webhook"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	lendingpostgres "github.com/lendingapi/lending-go/contrib/postgres"
)

// single returns a pool with a single connection.
func single(t *testing.T) (*pgxpool.Pool, *counted) {
	t.Helper()
	tracer := new(counted)
	pool := migrated(t, func(c *pgxpool.Config) { c.MaxConns, c.ConnConfig.Tracer = 1, tracer })
	return pool, tracer
}

// atOnce begins all calls while the pool has no free connection.
func atOnce(t *testing.T, pool *pgxpool.Pool, calls int, call func(n int)) {
	t.Helper()
	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	var begun, ended sync.WaitGroup
	begun.Add(calls)
	for n := range calls {
		ended.Go(func() {
			begun.Done()
			call(n)
		})
	}
	begun.Wait()
	conn.Release()
	ended.Wait()
}

// waitForLocks waits until some statements wait for a lock.
func waitForLocks(t *testing.T, pool *pgxpool.Pool, statements int) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	for waiting := 0; waiting < statements; {
		require.NoError(t, pool.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waiting))
	}
}

// Puts at the same moment share transactions, also of equal events, and each has its own result.
func TestPutsShareATransaction(t *testing.T) {
	t.Parallel()
	pool, tracer := single(t)
	inbox := inboxOf(pool, nil)
	require.NoError(t, inbox.Put(t.Context(), event("0")))
	before := tracer.statements.Load()
	const events, each = 100, 3
	var stored, again [events]atomic.Int32
	atOnce(t, pool, events*each, func(n int) {
		switch err := inbox.Put(t.Context(), event(lending.EventName(fmt.Sprint(n%events)))); {
		case err == nil:
			stored[n%events].Add(1)
		case assert.ErrorIs(t, err, webhook.ErrDuplicate):
			again[n%events].Add(1)
		}
	})
	require.Less(t, tracer.statements.Load()-before, int32(events), "statements for three times as many Puts")
	webhooktest.WantCounts(t, inbox, webhook.InboxCounts{Waiting: events})
	for n := range events {
		want := int32(1)
		if n == 0 {
			want = 0
		}
		require.Equal(t, want, stored[n].Load(), "%d", n)
		require.Equal(t, each-want, again[n].Load(), "%d", n)
	}
}

// A transaction that puts an event delays no Put of another event, and fails for none.
func TestPutTxDelaysOnlyItsOwnEvent(t *testing.T) {
	t.Parallel()
	pool := migrated(t, func(c *pgxpool.Config) { c.MaxConns = 20 })
	inbox := inboxOf(pool, nil)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	var held sync.WaitGroup
	hold := func(name lending.EventName) {
		held.Go(func() {
			if err := inbox.Put(t.Context(), event(name)); err != nil { // also from another call here
				assert.ErrorIs(t, err, webhook.ErrDuplicate)
			}
		})
	}
	names := []lending.EventName{"held 1", "held 2", "held 3", "held 4"}
	for _, name := range names {
		require.NoError(t, inbox.PutTx(t.Context(), tx, event(name)))
		hold(name)
	}
	waitForLocks(t, pool, len(names))
	for range 3 {
		hold("held 1")
		var putting sync.WaitGroup
		for n := range 30 {
			putting.Go(func() {
				err := inbox.Put(t.Context(), event(lending.EventName(fmt.Sprint(n))))
				if err != nil {
					assert.ErrorIs(t, err, webhook.ErrDuplicate)
				}
			})
		}
		putting.Wait()
	}
	webhooktest.WantCounts(t, inbox, webhook.InboxCounts{Waiting: 30})
	require.ErrorIs(t, inbox.PutTx(t.Context(), tx, event("1")), webhook.ErrDuplicate, "the transaction goes on")
	require.NoError(t, tx.Rollback(t.Context()))
	held.Wait()
	webhooktest.WantCounts(t, inbox, webhook.InboxCounts{Waiting: 34})
}

// Transactions of PutTx with many events, in any order, meet Puts of the same events. No
// transaction fails because of a deadlock.
func TestPutTxMeetsNoDeadlock(t *testing.T) {
	t.Parallel()
	pool := migrated(t, func(c *pgxpool.Config) { c.MaxConns = 20 })
	inbox := inboxOf(pool, nil)
	var added atomic.Int32
	for round := range 5 {
		named := func(n int) *webhook.Event { return event(lending.EventName(fmt.Sprint(round, " ", n))) }
		count := func(err error) {
			if err == nil {
				added.Add(1)
			} else {
				assert.ErrorIs(t, err, webhook.ErrDuplicate)
			}
		}
		var putting sync.WaitGroup
		putting.Go(func() {
			assert.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
				for _, n := range rand.Perm(20) {
					count(inbox.PutTx(t.Context(), tx, named(n)))
				}
				return nil
			}))
		})
		for _, n := range rand.Perm(20) {
			putting.Go(func() { count(inbox.Put(t.Context(), named(n))) })
		}
		putting.Wait()
	}
	require.Equal(t, int32(100), added.Load())
	webhooktest.WantCounts(t, inbox, webhook.InboxCounts{Waiting: 100})
}

// A row that the server refuses fails its own Put.
func TestARefusedEventFailsNoOther(t *testing.T) {
	t.Parallel()
	pool := migrated(t, func(c *pgxpool.Config) { c.MaxConns = 20 })
	_, err := pool.Exec(t.Context(), "ALTER TABLE lending_inbox ADD CHECK (position('poison'::bytea IN body) = 0)")
	require.NoError(t, err)
	inbox := inboxOf(pool, nil)
	var putting sync.WaitGroup
	for n := range 100 {
		putting.Go(func() {
			if n%20 == 7 {
				err := inbox.Put(t.Context(), event(lending.EventName(fmt.Sprint("poison ", n))))
				assert.ErrorContains(t, err, "23514")
				return
			}
			assert.NoError(t, inbox.Put(t.Context(), event(lending.EventName(fmt.Sprint(n)))))
		})
	}
	putting.Wait()
	webhooktest.WantCounts(t, inbox, webhook.InboxCounts{Waiting: 95})
}

// Two processes put the same events in random order, while connections break at random, contexts
// end, and the server is killed. Put tells no untruth, and no event is there twice.
func TestPutsUnderFaults(t *testing.T) {
	t.Parallel()
	cluster := pgtest.Run(t)
	url := migratedURL(t, databaseIn(t, cluster))
	const events, processes = 150, 2
	var mu sync.Mutex
	accepted := map[string]int{}
	var putting sync.WaitGroup
	for range processes {
		proxy := newProxy(t, url)
		inbox := inboxOf(connect(t, proxy.url, func(c *pgxpool.Config) { c.MaxConns = 10 }), nil)
		for i, n := range rand.Perm(events) {
			putting.Go(func() {
				e := event(lending.EventName(fmt.Sprint(n)))
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
					err := inbox.Put(ctx, e)
					cancel()
					mu.Lock()
					if err == nil {
						accepted[e.Key()]++
					}
					known = err == nil || errors.Is(err, webhook.ErrDuplicate)
					mu.Unlock()
				}
			})
			if i == events/2 {
				require.NoError(t, cluster.Restart())
			}
		}
	}
	putting.Wait()
	pool := connect(t, url)
	inbox := inboxOf(pool, nil)
	webhooktest.WantCounts(t, inbox, webhook.InboxCounts{Waiting: events})
	for n := range events {
		e := event(lending.EventName(fmt.Sprint(n)))
		require.LessOrEqual(t, accepted[e.Key()], 1)
		require.ErrorIs(t, inbox.Put(t.Context(), e), webhook.ErrDuplicate)
	}
}

func takeAll(t *testing.T, inbox *lendingpostgres.Inbox, events int) (entries []*webhook.InboxEntry) {
	t.Helper()
	for n := range events {
		require.NoError(t, inbox.Put(t.Context(), event(lending.EventName(fmt.Sprint(n)))))
		entry, err := inbox.Take(t.Context())
		require.NoError(t, err)
		entries = append(entries, entry)
	}
	return entries
}

// A row that another transaction locks delays the Done of its own event only.
func TestALockedEventDelaysNoOtherDone(t *testing.T) {
	t.Parallel()
	pool := migrated(t, func(c *pgxpool.Config) { c.MaxConns = 20 })
	inbox := inboxOf(pool, nil)
	const locked, events = 3, 30
	entries := takeAll(t, inbox, events)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "SELECT FROM lending_inbox ORDER BY id LIMIT $1 FOR UPDATE", locked)
	require.NoError(t, err)
	var waiting, doing sync.WaitGroup
	for n, entry := range entries {
		group := &doing
		if n < locked {
			group = &waiting
		}
		group.Go(func() { assert.NoError(t, inbox.Done(t.Context(), entry)) })
	}
	doing.Wait()
	webhooktest.WantCounts(t, inbox, webhook.InboxCounts{Running: locked})
	require.NoError(t, tx.Rollback(t.Context()))
	waiting.Wait()
	webhooktest.WantCounts(t, inbox, webhook.InboxCounts{})
}
