package lendingpostgres_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// counters are workers that increment entries, each with a pool of its own, like several processes.
type counters struct {
	pools   []*pgxpool.Pool
	total   atomic.Int64
	mu      sync.Mutex
	saved   map[string]int64
	stop    func()
	working sync.WaitGroup
}

func count(t *testing.T, workers int, url string) *counters {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	c := &counters{saved: map[string]int64{}, stop: stop}
	for worker := range workers {
		pool := connect(t, url)
		c.pools = append(c.pools, pool)
		c.working.Go(func() { assert.NoError(t, c.increment(ctx, storesOf(pool).idempotency, worker)) })
	}
	return c
}

func (c *counters) note(key string, revision int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.saved[key] = revision
	c.total.Add(1)
}

// saves returns the number of acknowledged Saves.
func (c *counters) saves() int64 { return c.total.Load() }

// more waits for n more Saves.
func (c *counters) more(t *testing.T, n int64) {
	t.Helper()
	before := c.saves()
	require.Eventually(t, func() bool { return c.saves() > before+n }, 2*time.Minute, time.Millisecond)
}

// end checks that every acknowledged Save is there. The server may still execute the last Saves
// after their contexts have ended, until their connections are gone.
func (c *counters) end(t *testing.T, url string) {
	t.Helper()
	c.stop()
	c.working.Wait()
	for _, pool := range c.pools {
		pool.Close()
	}
	pool := connect(t, url)
	require.Eventually(t, func() bool {
		var others int
		err := pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE backend_type = 'client backend' AND datname = current_database() AND pid <> pg_backend_pid()`).Scan(&others)
		return assert.NoError(t, err) && others == 0
	}, time.Minute, 10*time.Millisecond)
	require.NoError(t, check(t.Context(), storesOf(pool).idempotency, c.saved))
	t.Logf("%d Saves of %d entries", c.saves(), len(c.saved))
}

var states = []store.State{
	store.Free, store.Sent, store.InDoubt, store.NeedsReview, store.Done, store.Forgotten,
}

const keys = 5 // per worker

func keyOf(worker, n int) string { return fmt.Sprintf("worker %d:%d", worker, n) }

// entryOf returns the entry of a key at a revision. Size and lock depend on the revision.
func entryOf(key string, revision int64) store.Entry {
	e := store.Entry{Key: key, Revision: revision, State: states[revision%6]}
	if revision%3 != 0 {
		e.Lock = fmt.Sprint("lock ", revision%3, " of ", key)
	}
	e.Data = []byte(strings.Repeat(fmt.Sprint(key, " ", revision, "\n"), int(revision*7%200)))
	return e
}

func right(e store.Entry) error {
	want := entryOf(e.Key, e.Revision)
	if e.State != want.State || e.Lock != want.Lock || !bytes.Equal(e.Data, want.Data) {
		return fmt.Errorf("%q at revision %d has state %q, lock %q and %d bytes of data, which are of another revision",
			e.Key, e.Revision, e.State, e.Lock, len(e.Data))
	}
	return nil
}

// increment increments the entries of a worker until ctx ends, and notes each successful
// Save. It returns an error if the store returns wrong data. Errors of the store itself are
// expected.
func (c *counters) increment(ctx context.Context, entries store.Store, worker int) error {
	last := map[string]int64{}
	for n := 0; ctx.Err() == nil; n++ {
		key := keyOf(worker, n%keys)
		kept, err := entries.Load(ctx, key)
		if err != nil {
			continue
		}
		var revision int64
		if kept != nil {
			revision = kept.Revision
			if err := right(*kept); err != nil {
				return err
			}
		}
		if revision < last[key] {
			return fmt.Errorf("%q was saved with revision %d, and has %d", key, last[key], revision)
		}
		entry := entryOf(key, revision+1)
		entry.Revision = revision
		switch err := entries.Save(ctx, entry); {
		case err == nil:
			last[key] = revision + 1
			c.note(key, revision+1)
		case errors.Is(err, store.ErrConflict), errors.As(err, new(*store.LockedError)):
			return fmt.Errorf("%q, which nobody else saves: %w", key, err)
		}
	}
	return nil
}

// check returns an error unless the store has the saved revisions, or later ones.
func check(ctx context.Context, entries store.Store, saved map[string]int64) error {
	for key, revision := range saved {
		kept, err := entries.Load(ctx, key)
		switch {
		case err != nil:
			return err
		case kept == nil || kept.Revision < revision:
			return fmt.Errorf("%q was saved with revision %d, and has %v", key, revision, kept)
		}
		if err := right(*kept); err != nil {
			return err
		}
	}
	return nil
}
