package guarantees_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/wire"
)

// bomb returns 200 MiB in about 200 KB.
var bomb = sync.OnceValue(func() []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(bytes.Repeat([]byte("x"), 1<<20))
	_ = w.Close()
	return bytes.Repeat(b.Bytes(), 200) // gzip allows one after the other
})

func TestDecompressedAnswersAreBounded(t *testing.T) {
	for _, test := range []struct {
		status  int
		outcome lending.Outcome
		most    int
	}{
		{200, lending.OutcomeDone, 64 << 20},
		{400, lending.OutcomeRejected, 1 << 20},
		{500, lending.OutcomeUnknown, 1 << 20},
	} {
		t.Run(http.StatusText(test.status), func(t *testing.T) {
			var arrivals atomic.Int32
			client := wire.Serve(t, func(w http.ResponseWriter, _ *http.Request) {
				arrivals.Add(1)
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("Content-Encoding", "gzip")
				w.WriteHeader(test.status)
				_, _ = w.Write(bomb())
			})
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := client.Applications.Cancel(t.Context(), catalog.Application)
			runtime.ReadMemStats(&after)
			require.ErrorIs(t, err, lending.ErrTooLarge)
			var failed *lending.Error
			require.ErrorAs(t, err, &failed)
			assert.Equal(t, test.status, failed.StatusCode)
			assert.Equal(t, test.outcome, failed.Outcome)
			assert.Len(t, failed.Response().Body, test.most)
			assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(10*test.most+(8<<20)))
			assert.EqualValues(t, 1, arrivals.Load())
		})
	}
	t.Run("a read is not repeated", func(t *testing.T) {
		var arrivals atomic.Int32
		client := wire.Serve(t, func(w http.ResponseWriter, _ *http.Request) {
			arrivals.Add(1)
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(bomb())
		})
		_, err := client.Applications.Status(t.Context(), catalog.Application)
		require.ErrorIs(t, err, lending.ErrTooLarge)
		assert.EqualValues(t, 1, arrivals.Load())
	})
}

// A Content-Length alone costs no memory.
func TestClaimedLengthIsNotAllocated(t *testing.T) {
	client := wire.Serve(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		assert.NoError(t, err)
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 60000000\r\n\r\n{")
		_ = conn.Close()
	})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 5 {
		assert.Error(t, client.Applications.Cancel(t.Context(), catalog.Application))
	}
	runtime.ReadMemStats(&after)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(16<<20))
}

func TestDribblingBodyEndsWithTheContext(t *testing.T) {
	for _, foreign := range []bool{false, true} {
		t.Run(fmt.Sprintf("foreign=%t", foreign), func(t *testing.T) {
			var opts []lending.Option
			if foreign {
				own := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
				opts = append(opts, lending.WithHTTPClient(own))
			}
			client := wire.Serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				ticks := time.NewTicker(5 * time.Millisecond)
				defer ticks.Stop()
				for {
					if _, err := w.Write([]byte(" ")); err != nil {
						return
					}
					_ = http.NewResponseController(w).Flush()
					select {
					case <-ticks.C:
					case <-r.Context().Done():
						return
					}
				}
			}, opts...)
			var err error
			for wait := 50 * time.Millisecond; wait < time.Minute; wait *= 4 { // on a busy machine the status is late
				ctx, cancel := context.WithTimeout(t.Context(), wait)
				err = client.Applications.Cancel(ctx, catalog.Application)
				cancel()
				require.ErrorIs(t, err, context.DeadlineExceeded)
				if lending.OutcomeOf(err) == lending.OutcomeDone {
					break
				}
			}
			assert.ErrorContains(t, err, "it happened")
		})
	}
}

// A call ends even if its context never does.
func TestCallsEndWithoutADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, attempts := inOrder(t, stalls)
		start := time.Now()
		err := client.Applications.Cancel(t.Context(), catalog.Application)
		assert.Equal(t, 2*time.Minute, time.Since(start))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
		assert.Equal(t, 1, *attempts)
	})
}
