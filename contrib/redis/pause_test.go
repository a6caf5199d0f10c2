package lendingredis_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/stretchr/testify/require"
)

// TestPauseStopsAllReplicas has three replicas send mutations all the time, each through a store of its
// own, and pauses one of their logs. No replica begins to send later than a second after that.
func TestPauseStopsAllReplicas(t *testing.T) {
	t.Parallel()
	server := startRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	service := lendingtest.New()
	defer service.Close()
	var paused atomic.Pointer[time.Time] // when the pause was in the store
	var sent, late, refused atomic.Int32
	way := wire.RoundTripper(func(r *http.Request) (*http.Response, error) {
		if strings.HasSuffix(r.URL.Path, "/create-customer") {
			sent.Add(1)
			if since := paused.Load(); since != nil && time.Since(*since) > time.Second {
				late.Add(1)
			}
		}
		return service.Transport().RoundTrip(r)
	})
	var replicas sync.WaitGroup
	var logs []*idempotency.Log
	for replica := range 3 {
		keys := fake.Must(idempotency.NewLog(log(t, server.client()), nil))
		logs = append(logs, keys)
		client := wire.NewClient(t, "https://lending.example", lending.WithIdempotency(keys),
			lending.WithHTTPClient(&http.Client{Transport: way}),
			lending.WithTokenSource(lending.StaticToken(service.Token(lendingtest.Username))))
		replicas.Go(func() {
			wait := time.NewTicker(20 * time.Millisecond)
			defer wait.Stop()
			for n, seen := 0, 0; seen < 100; n++ { // for two seconds of a pause
				ctx := lending.WithIdempotencyKey(t.Context(), fmt.Sprint(replica, "/", n))
				_, err := client.Applications.CreateCustomer(ctx, fake.Newcomer())
				switch {
				case errors.Is(err, idempotency.ErrPaused):
					seen++
					refused.Add(1)
				case err != nil:
					t.Error(err)
					return
				}
				<-wait.C
			}
		})
	}
	require.Eventually(t, func() bool { return sent.Load() >= 60 }, time.Minute, 10*time.Millisecond)
	if err := logs[0].Pause(t.Context(), idempotency.Decision{By: "kim", Why: "a test"}); err != nil {
		t.Error(err)
	}
	now := time.Now()
	paused.Store(&now)
	replicas.Wait()
	t.Logf("%d mutations sent, %d refused", sent.Load(), refused.Load())
	if late.Load() > 0 {
		t.Errorf("%d mutations begun later than a second after the pause", late.Load())
	}
}
