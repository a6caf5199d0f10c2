package transport_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/internal/transport"
)

// lateTimer is a context whose timer does not fire.
type lateTimer struct {
	context.Context
	at time.Time
}

func (c lateTimer) Deadline() (time.Time, bool) { return c.at, true }

// TestNothingIsWrittenAfterTheDeadline holds that the first byte of a request is held back too,
// also where the handshake of TLS has used the connection before it.
func TestNothingIsWrittenAfterTheDeadline(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		late bool
	}{{"in time", false}, {"too late", true}} {
		t.Run(test.name, func(t *testing.T) {
			arrived := 0
			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				arrived++
				_, _ = io.WriteString(w, "true")
			}))
			defer server.Close()
			pooled := transport.New(256)
			pooled.TLSClientConfig.RootCAs = server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
			at := time.Now().Add(time.Minute)
			if test.late {
				at = time.Now().Add(300 * time.Millisecond)
			}
			ctx, deadline := transport.WithDeadline(lateTimer{t.Context(), at})
			ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
				if deadline.Got(); test.late {
					<-time.After(time.Until(at) + time.Millisecond)
				}
			}})
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, strings.NewReader("{}"))
			require.NoError(t, err)
			resp, err := transport.NewFresh(pooled, parsed(t, server.URL), transport.Options{Spares: true}).RoundTrip(r)
			if test.late {
				require.Error(t, err, "net/http returns that of the write, or of the read that it ends")
				assert.True(t, deadline.NeverLeft())
				assert.Zero(t, arrived)
				return
			}
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			assert.False(t, deadline.NeverLeft())
			assert.Equal(t, 1, arrived)
		})
	}
}

// TestNoDeadlineHoldsNothingBack has a context without a deadline.
func TestNoDeadlineHoldsNothingBack(t *testing.T) {
	ctx, deadline := transport.WithDeadline(t.Context())
	assert.Equal(t, t.Context(), ctx)
	assert.Nil(t, deadline)
	deadline.Got()
	assert.False(t, deadline.IsOver())
	assert.False(t, deadline.NeverLeft())
}
