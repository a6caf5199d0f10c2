package guarantees_test

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/wire"
)

// A call that is refused before the request captures nothing, and clears the response of the call before.
func TestCaptureResponseOfARefusal(t *testing.T) {
	captured := lending.Response{StatusCode: 299, Body: []byte("of another call")}
	ctx := lending.CaptureResponse(t.Context(), &captured)
	require.Error(t, wire.Silent(t).Applications.Cancel(ctx, lending.ApplicationID{}))
	assert.Equal(t, lending.Response{}, captured)
}

// The end of the caller's context is not reported as a timeout of the network.
func TestEndOfTheContextIsNoTimeout(t *testing.T) {
	ended := make(chan struct{})
	defer close(ended)
	client := wire.Serve(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-ended:
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	err := client.Applications.Cancel(ctx, catalog.Application)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.ErrorContains(t, err, ": deadline exceeded: outcome unknown")
}

// A status other than a success decides alone, even if the body is cut: the client does not repeat the read.
func TestCutBodyDoesNotChangeTheOutcomeOfAStatus(t *testing.T) {
	var arrivals atomic.Int32
	client := wire.Serve(t, func(w http.ResponseWriter, _ *http.Request) {
		arrivals.Add(1)
		conn, _, err := w.(http.Hijacker).Hijack()
		assert.NoError(t, err)
		_, _ = io.WriteString(conn, "HTTP/1.1 404 Not Found\r\nContent-Length: 90\r\n\r\n{")
		_ = conn.Close()
	})
	_, err := client.Applications.Status(t.Context(), catalog.Application)
	require.ErrorIs(t, err, lending.ErrNotFound)
	assert.EqualValues(t, 1, arrivals.Load())
}
