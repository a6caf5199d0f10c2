package idempotencytest

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
)

// BenchmarkSweep forgets the answers of mutations that are done, and then forgets the mutations.
// size returns how much room the store takes.
func BenchmarkSweep(b *testing.B, entries store.Store, size func() int64) {
	b.Helper()
	const n, orders = 24_000, 1000
	before := size()
	answer := fmt.Appendf(nil, `{"request":{"frozen":true,"route":"POST /api/Application/create-application","account":"%064d",`+
		`"fingerprint":"%044d","salt":"%026d"},"send":{"number":1},`+
		`"response":{"status":200,"media":"application/json; charset=utf-8","body":"%s"}}`, 1, 0, 2, strings.Repeat("eHh4", 100))
	var group sync.WaitGroup
	for worker := range 64 {
		group.Go(func() {
			for i := worker; i < n; i += 64 {
				entry := store.Entry{Key: fmt.Sprintf(":order-%06d/step-%02d", i/24, i%24), State: store.Done, Data: answer}
				if err := entries.Save(b.Context(), entry); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	log, err := idempotency.NewLog(entries, &idempotency.Options{KeepAnswers: 1, MaxLateness: 1})
	if err != nil {
		b.Fatal(err)
	}
	done := size()
	start := time.Now()
	swept, err := log.Sweep(b.Context())
	if err != nil || swept != n {
		b.Fatal(swept, err)
	}
	took := time.Since(start)
	b.ReportMetric(float64(n)/took.Seconds(), "swept/s")
	b.ReportMetric(float64(done-before)/orders, "done-B/order")
	b.ReportMetric(float64(size()-before)/orders, "tombstones-B/order")
	start = time.Now()
	for order := range 100 {
		if _, err := log.Forget(b.Context(), fmt.Sprintf("order-%06d/", order)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(100/time.Since(start).Seconds(), "orders-forgotten/s")
	start = time.Now()
	forgotten, err := log.Forget(b.Context(), "order-")
	if err != nil || forgotten != n-100*24 {
		b.Fatal(forgotten, err)
	}
	b.ReportMetric(float64(forgotten)/time.Since(start).Seconds(), "forgotten/s")
	b.ReportMetric(0, "ns/op")
}
