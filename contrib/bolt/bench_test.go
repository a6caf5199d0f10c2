package lendingbolt_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/idempotencytest"
	"github.com/lendingapi/lending-go/webhook"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	lendingbolt "github.com/lendingapi/lending-go/contrib/bolt"
)

// BenchmarkAccept delivers webhooks over real connections to two receivers, in turns. The first
// puts events into the inbox. The second, the floor, writes and syncs each event by hand. The
// metric of interest is the rate of the first, divided by the rate of the second.
func BenchmarkAccept(b *testing.B) {
	for _, connections := range []int{1, 16, 64} {
		b.Run(fmt.Sprint("connections=", connections), func(b *testing.B) {
			inbox, err := lendingbolt.OpenInbox(filepath.Join(b.TempDir(), "inbox"), nil)
			require.NoError(b, err)
			defer inbox.Close()
			file, err := os.OpenFile(filepath.Join(b.TempDir(), "floor"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
			require.NoError(b, err)
			defer file.Close()
			var mu sync.Mutex
			floor := func(_ context.Context, event *webhook.Event) error {
				mu.Lock()
				defer mu.Unlock()
				if _, err := file.Write(event.Body()); err != nil {
					return err
				}
				return file.Sync()
			}
			const turn = 256 // deliveries
			var took [2]time.Duration
			deliver := [2]func(n int){receive(b, connections, inbox.Put), receive(b, connections, floor)}
			b.ResetTimer()
			for done := 0; done < b.N; done += turn {
				for i, deliver := range deliver {
					start := time.Now()
					deliver(turn)
					took[i] += time.Since(start)
				}
			}
			events := float64((b.N + turn - 1) / turn * turn)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(events/took[0].Seconds(), "inbox/s")
			b.ReportMetric(events/took[1].Seconds(), "floor/s")
			b.ReportMetric(took[1].Seconds()/took[0].Seconds(), "of-floor")
		})
	}
}

var numbers atomic.Int64

// receive starts a receiver and returns a function that delivers n events to it.
func receive(b *testing.B, connections int, handle webhook.EventFunc) func(n int) {
	b.Helper()
	receiver, err := webhook.NewReceiver(webhook.SignedWith(lending.NewSecret(secret)), handle, nil)
	require.NoError(b, err)
	server := httptest.NewServer(receiver)
	b.Cleanup(server.Close)
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: connections, MaxIdleConnsPerHost: connections}}
	return func(n int) {
		var left atomic.Int64
		left.Store(int64(n))
		var group sync.WaitGroup
		for range connections {
			group.Go(func() {
				for left.Add(-1) >= 0 {
					body := numbered()
					r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, server.URL,
						bytes.NewReader(body))
					if err != nil {
						b.Error(err)
						return
					}
					r.Header.Set("Content-Type", "application/json")
					r.Header.Set(webhook.SignatureHeader, lending.Sign(secret, body))
					response, err := client.Do(r)
					if err != nil || response.StatusCode != http.StatusNoContent {
						b.Error(response, err)
						return
					}
					_ = response.Body.Close()
				}
			})
		}
		group.Wait()
	}
}

// numbered returns a delivery of usual size. No two deliveries are equal.
func numbered() []byte {
	return fmt.Appendf(nil,
		`{"id":"3fa85f64-5717-4562-b3fc-2c963f66afa6","webhookEvent":"WB_Application_Status_Changed",`+
			`"data":{"applicationId":"11111111-2222-3333-4444-%012d","status":"Under review","partner":"%0100d"},`+
			`"creationTimeUtc":"2024-01-02T03:04:05.1234567Z"}`, numbers.Add(1), 0)
}

// BenchmarkQueue puts, takes and ends events, 32 at a time, while many others wait, and opens
// their file.
func BenchmarkQueue(b *testing.B) {
	for _, queued := range []int{1_000, 100_000} {
		path := filepath.Join(b.TempDir(), "inbox")
		inbox, err := lendingbolt.OpenInbox(path, nil)
		require.NoError(b, err)
		parallel(b, 256, queued, func() error { return putNumbered(b.Context(), inbox) })
		b.Run(fmt.Sprintf("queued=%d/put,take,done", queued), func(b *testing.B) {
			parallel(b, 32, b.N, func() error {
				if err := putNumbered(b.Context(), inbox); err != nil {
					return err
				}
				entry, err := inbox.Take(b.Context())
				if err != nil {
					return err
				}
				return inbox.Done(b.Context(), entry)
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
	parallel(b, 256, b.N, func() error { return putNumbered(b.Context(), inbox) })
	drain := func(n int) float64 {
		start := time.Now()
		parallel(b, 32, n, func() error {
			entry, err := inbox.Take(b.Context())
			if err != nil {
				return err
			}
			return inbox.Done(b.Context(), entry)
		})
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

func putNumbered(ctx context.Context, inbox *lendingbolt.Inbox) error {
	event, err := webhook.Parse(numbered())
	if err != nil {
		return err
	}
	return inbox.Put(ctx, event)
}

// parallel calls f n times, several calls at a time.
func parallel(b *testing.B, concurrency, n int, f func() error) {
	b.Helper()
	var left atomic.Int64
	left.Store(int64(n))
	var group sync.WaitGroup
	for range concurrency {
		group.Go(func() {
			for left.Add(-1) >= 0 {
				if err := f(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
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
