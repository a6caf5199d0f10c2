package idempotencytest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
)

// Benchmark measures three things in turn, over real connections: a mutation without a key, a
// mutation with a key and a log in entries, and two calls of write. Each call of write is a
// durable write of the same size, without this library. A mutation with a key cannot cost less
// than the first and the last together. The metric of interest is the ratio.
func Benchmark(b *testing.B, entries store.Store, write func(key string, data []byte) error) {
	b.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "true")
	}))
	defer server.Close()
	log, err := idempotency.NewLog(entries, nil)
	if err != nil {
		b.Fatal(err)
	}
	client, err := lending.New(server.URL, lending.WithTokenSource(lending.StaticToken("test-token")), lending.WithIdempotency(log))
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	command := func(ctx context.Context) error { // a mutation whose check needs no snapshot
		return client.Applications.Cancel(ctx, lending.ApplicationID(uuid.New()))
	}
	data := bytes.Repeat([]byte("x"), 300) // about the size of a log entry
	n := 0
	var took [3][]time.Duration
	for b.Loop() {
		n++
		key := fmt.Sprint("order-", n)
		for i, turn := range []func() error{
			func() error { return command(b.Context()) },
			func() error { return command(lending.WithIdempotencyKey(b.Context(), key)) },
			func() error {
				if err := write(key, data); err != nil {
					return err
				}
				return write(key, data)
			},
		} {
			start := time.Now()
			if err := turn(); err != nil {
				b.Fatal(err)
			}
			took[i] = append(took[i], time.Since(start))
		}
	}
	var median [3]float64
	for i := range took {
		slices.Sort(took[i])
		median[i] = float64(took[i][len(took[i])/2].Microseconds())
	}
	b.ReportMetric(0, "ns/op") // the total has no meaning
	b.ReportMetric(median[0], "bare-µs")
	b.ReportMetric(median[1], "keyed-µs")
	b.ReportMetric(median[2], "writes-µs")
	b.ReportMetric(median[1]/(median[0]+median[2]), "floors")
}
