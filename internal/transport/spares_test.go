package transport_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/internal/transport"
)

var errDial = errors.New("no connection")

// answering returns the end of a pipe whose other end answers requests.
func answering() net.Conn {
	ours, theirs := net.Pipe()
	go func() {
		defer theirs.Close()
		if r, err := http.ReadRequest(bufio.NewReader(theirs)); err == nil {
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(theirs, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ntrue")
		}
	}()
	return ours
}

// TestRequestWaitsForTheSpare has a request come while a spare is being opened. The request gets
// it, or the next if that fails, and leaves it to the next request if its context ends.
func TestRequestWaitsForTheSpare(t *testing.T) {
	for _, test := range []struct {
		name     string
		first    error         // of the dial of the spare
		deadline time.Duration // of the request; the spare takes a second
		wantErr  error
		wantTime time.Duration
	}{
		{"it is opened", nil, time.Minute, nil, time.Second},
		{"it fails", errDial, time.Minute, nil, time.Second},
		{"the context ends", nil, 500 * time.Millisecond, context.DeadlineExceeded, 500 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var dials atomic.Int32
				like := transport.New(2)
				like.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
					isFirst := dials.Add(1) == 1
					select {
					case <-time.After(time.Second):
					case <-ctx.Done():
						return nil, ctx.Err()
					}
					if isFirst && test.first != nil {
						return nil, test.first
					}
					return answering(), nil
				}
				fresh := transport.NewFresh(like, parsed(t, "http://127.0.0.1"), transport.Options{Spares: true})
				defer fresh.Close()
				fresh.Replenish()
				synctest.Wait()
				start := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), test.deadline)
				defer cancel()
				require.ErrorIs(t, post(ctx, fresh, "http://127.0.0.1"), test.wantErr)
				assert.Equal(t, test.wantTime, time.Since(start))
				time.Sleep(time.Second) //nolint:forbidigo // of the bubble
				start = time.Now()
				require.NoError(t, post(t.Context(), fresh, "http://127.0.0.1"))
				if test.first == nil {
					assert.Zero(t, time.Since(start), "the next request finds a spare")
				}
				fresh.Close()
				time.Sleep(time.Minute) //nolint:forbidigo // of the bubble
			})
		})
	}
}

// TestWaitForAConnectionEnds has a request wait for the only connection until its context ends.
func TestWaitForAConnectionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		like := transport.New(1)
		like.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		fresh := transport.NewFresh(like, parsed(t, "http://127.0.0.1"), transport.Options{Spares: true})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		first := make(chan error)
		go func() { first <- post(t.Context(), fresh, "http://127.0.0.1") }()
		synctest.Wait()
		require.ErrorIs(t, post(ctx, fresh, "http://127.0.0.1"), context.DeadlineExceeded)
		held := fresh.Prepare()
		require.NoError(t, held.Connect(t.Context()), "a single connection is never held")
		held.Close()
		cancelled, stop := context.WithCancel(t.Context())
		stop()
		require.ErrorIs(t, post(cancelled, fresh, "http://127.0.0.1"), context.Canceled)
		go func() { <-first }()
	})
}

// TestAddressIsThatOfNetHTTP holds the addresses that are dialed.
func TestAddressIsThatOfNetHTTP(t *testing.T) {
	for _, test := range []struct{ base, want string }{
		{"http://service.example", "service.example:80"},
		{"https://service.example", "service.example:443"},
		{"https://service.example:8443", "service.example:8443"},
		{"http://[::1]", "[::1]:80"},
		{"https://sérvice.example", "xn--srvice-bva.example:443"},
		{"https://sérvice.example:12345", "xn--srvice-bva.example:12345"},
	} {
		t.Run(test.want, func(t *testing.T) {
			var dialed string // net/http dials in a goroutine, which has ended with the request
			like := transport.New(256)
			like.DialContext = func(_ context.Context, _, address string) (net.Conn, error) {
				dialed = address
				return nil, errDial
			}
			fresh := transport.NewFresh(like, parsed(t, test.base), transport.Options{Spares: true})
			defer fresh.Close()
			require.ErrorIs(t, post(t.Context(), fresh, test.base), errDial)
			assert.Equal(t, test.want, dialed)
		})
	}
}

// TestPreparationTakesASpare holds that a prepared connection is a spare if there is one, and
// that another takes its place.
func TestPreparationTakesASpare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fresh, others := piped(t, 256)
		defer fresh.Close()
		fresh.Replenish()
		synctest.Wait()
		require.Len(t, others, 1)
		p := fresh.Prepare()
		require.NoError(t, p.Connect(t.Context()))
		synctest.Wait()
		require.Len(t, others, 2)
		fresh.Close()
		other := <-others
		require.NoError(t, other.SetReadDeadline(time.Now()))
		_, err := other.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded, "the first connection is prepared, and open")
		p.Close()
		for range 2 {
			p := fresh.Prepare() // closed or not, a preparation works
			require.NoError(t, p.Connect(t.Context()))
			p.Close()
			require.NoError(t, p.Connect(t.Context()), "ended")
		}
	})
}
