package lendingbolt_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/lendingapi/lending-go/internal/test/idempotencytest"
	"github.com/lendingapi/lending-go/internal/test/webhooktest"
	"github.com/lendingapi/lending-go/webhook"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	lendingbolt "github.com/lendingapi/lending-go/contrib/bolt"
)

// BenchmarkAccept has a floor that writes and syncs each event by hand.
func BenchmarkAccept(b *testing.B) {
	webhooktest.BenchmarkAccept(b, func(b *testing.B) (webhook.Inbox, webhook.EventFunc) {
		b.Helper()
		inbox, err := lendingbolt.OpenInbox(filepath.Join(b.TempDir(), "inbox"), nil)
		require.NoError(b, err)
		b.Cleanup(func() { _ = inbox.Close() })
		file, err := os.OpenFile(filepath.Join(b.TempDir(), "floor"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		require.NoError(b, err)
		b.Cleanup(func() { _ = file.Close() })
		var mu sync.Mutex
		return inbox, func(_ context.Context, event *webhook.Event) error {
			mu.Lock()
			defer mu.Unlock()
			if _, err := file.Write(event.Body()); err != nil {
				return err
			}
			return file.Sync()
		}
	})
}

// BenchmarkQueue puts, takes and ends events, 32 at a time, while many others wait, and opens
// their file.
func BenchmarkQueue(b *testing.B) {
	for _, queued := range []int{1_000, 100_000} {
		path := filepath.Join(b.TempDir(), "inbox")
		inbox, err := lendingbolt.OpenInbox(path, nil)
		require.NoError(b, err)
		webhooktest.Parallel(b, 256, queued, func() error { return webhooktest.PutNumbered(b.Context(), inbox) })
		b.Run(fmt.Sprintf("queued=%d/put,take,done", queued), func(b *testing.B) {
			webhooktest.Parallel(b, 32, b.N, func() error {
				if err := webhooktest.PutNumbered(b.Context(), inbox); err != nil {
					return err
				}
				return webhooktest.TakeAndEnd(b.Context(), inbox)
			})
		})
		b.Run(fmt.Sprintf("queued=%d/open", queued), func(b *testing.B) {
			for range b.N {
				require.NoError(b, inbox.Close())
				inbox, err = lendingbolt.OpenInbox(path, nil)
				require.NoError(b, err)
			}
		})
		require.NoError(b, inbox.Close())
	}
}

// BenchmarkDrain takes and ends the events of a backlog, 32 at a time, and compares the
// first tenth with the last: -benchtime 100000x is a backlog of 100,000.
func BenchmarkDrain(b *testing.B) {
	inbox, err := lendingbolt.OpenInbox(filepath.Join(b.TempDir(), "inbox"), nil)
	require.NoError(b, err)
	defer inbox.Close()
	webhooktest.Parallel(b, 256, b.N, func() error { return webhooktest.PutNumbered(b.Context(), inbox) })
	drain := func(n int) float64 {
		start := time.Now()
		webhooktest.Parallel(b, 32, n, func() error { return webhooktest.TakeAndEnd(b.Context(), inbox) })
		return float64(n) / time.Since(start).Seconds()
	}
	b.ResetTimer()
	tenth := b.N / 10
	first := drain(tenth)
	drain(b.N - 2*tenth)
	last := drain(tenth)
	if tenth > 0 {
		b.ReportMetric(first, "first/s")
		b.ReportMetric(last, "last/s")
	}
}

// BenchmarkIdempotency sends mutations with a key. The floor is the mutation itself with two
// bbolt transactions by hand.
func BenchmarkIdempotency(b *testing.B) {
	store, err := lendingbolt.OpenIdempotencyStore(filepath.Join(b.TempDir(), "log"), nil)
	require.NoError(b, err)
	defer store.Close()
	db, err := bbolt.Open(filepath.Join(b.TempDir(), "floor"), 0o600, &bbolt.Options{NoFreelistSync: true})
	require.NoError(b, err)
	defer db.Close()
	idempotencytest.Benchmark(b, store, func(key string, data []byte) error {
		return db.Update(func(tx *bbolt.Tx) error {
			bucket, err := tx.CreateBucketIfNotExists([]byte("floor"))
			if err != nil {
				return err
			}
			return bucket.Put([]byte(key), data)
		})
	})
}

func BenchmarkSweep(b *testing.B) {
	path := filepath.Join(b.TempDir(), "log")
	entries, err := lendingbolt.OpenIdempotencyStore(path, nil)
	require.NoError(b, err)
	defer entries.Close()
	idempotencytest.BenchmarkSweep(b, entries, func() int64 {
		info, err := os.Stat(path)
		require.NoError(b, err)
		return info.Size()
	})
}
