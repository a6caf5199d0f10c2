package webhooktest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/webhook"
)

// InTurns measures two functions in turns, in changing order, and returns the median time of each
// and the median of the ratios of two neighboring turns.
func InTurns(b *testing.B, first, second func()) (took [2]time.Duration, ratio float64) {
	b.Helper()
	each, all, ratios := [2]func(){first, second}, [2][]time.Duration{}, []float64{}
	first() // prepares the statements
	second()
	b.ResetTimer()
	for n := range b.N {
		for i := range each {
			i ^= n % 2
			start := time.Now()
			each[i]()
			all[i] = append(all[i], time.Since(start))
		}
		ratios = append(ratios, all[1][n].Seconds()/all[0][n].Seconds())
	}
	b.ReportMetric(0, "ns/op")
	for i, times := range all {
		slices.Sort(times)
		took[i] = times[len(times)/2]
	}
	slices.Sort(ratios)
	return took, ratios[len(ratios)/2]
}

// BenchmarkAccept delivers webhooks over real connections to two receivers, in turns of 256. The
// first puts events into the inbox of open. The second, the floor, writes each event by hand.
// Both have written an event durably when they respond. The metric of interest is of-floor.
func BenchmarkAccept(b *testing.B, open func(b *testing.B) (inbox webhook.Inbox, floor webhook.EventFunc)) {
	b.Helper()
	for _, connections := range []int{1, 16, 64} {
		b.Run(fmt.Sprint("connections=", connections), func(b *testing.B) {
			const turn = 256
			opened, byHand := open(b)
			inbox, floor := deliver(b, connections, opened.Put), deliver(b, connections, byHand)
			took, ratio := InTurns(b, func() { inbox(turn) }, func() { floor(turn) })
			b.ReportMetric(turn/took[0].Seconds(), "inbox/s")
			b.ReportMetric(turn/took[1].Seconds(), "floor/s")
			b.ReportMetric(ratio, "of-floor")
		})
	}
}

var numbers atomic.Int64

// Numbered returns a delivery of usual size. No two deliveries are equal.
func Numbered() []byte {
	return fmt.Appendf(nil,
		`{"id":"3fa85f64-5717-4562-b3fc-2c963f66afa6","webhookEvent":"WB_Application_Status_Changed",`+
			`"data":{"applicationId":"11111111-2222-3333-4444-%012d","status":"Under review","partner":"%0100d"},`+
			`"creationTimeUtc":"2024-01-02T03:04:05.1234567Z"}`, numbers.Add(1), 0)
}

// deliver starts a receiver and returns a function that delivers n events to it.
func deliver(b *testing.B, connections int, handle webhook.EventFunc) func(n int) {
	b.Helper()
	receiver, err := webhook.NewReceiver(webhook.SignedWith(lending.NewSecret(secret)), handle, nil)
	if err != nil {
		b.Fatal(err)
	}
	server := httptest.NewServer(receiver)
	b.Cleanup(server.Close)
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: connections, MaxIdleConnsPerHost: connections}}
	return func(n int) {
		Parallel(b, connections, n, func() error {
			status, err := post(b.Context(), client, server.URL, Numbered())
			if err == nil && status != http.StatusNoContent {
				err = errors.New(http.StatusText(status))
			}
			return err
		})
	}
}

func post(ctx context.Context, client *http.Client, url string, body []byte) (status int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set(webhook.SignatureHeader, lending.Sign(secret, body))
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

// Parallel calls f n times, several calls at a time.
func Parallel(b *testing.B, concurrency, n int, f func() error) {
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
