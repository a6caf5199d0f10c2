package guarantees_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"runtime"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/wire"
)

// limited is a service with a limit on the streams of a connection.
type limited struct {
	*httptest.Server

	mu       sync.Mutex
	executed map[string]int
	now      int // requests that no response has left for
	most     int
}

func newLimited(t *testing.T, streams int) *limited {
	t.Helper()
	s := &limited{executed: map[string]int{}}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, 2, r.ProtoMajor)
		_, _ = io.Copy(io.Discard, r.Body)
		s.mu.Lock()
		s.executed[path.Base(r.URL.Path)]++
		s.now++
		s.most = max(s.most, s.now)
		s.mu.Unlock()
		runtime.Gosched() // to the other requests
		s.mu.Lock()
		s.now--
		s.mu.Unlock()
		wire.Answer(http.StatusOK, "true")(w, r)
	}))
	s.EnableHTTP2, s.Config.ErrorLog = true, wire.QuietLog
	s.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: streams}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// TestConcurrencyLimitOfTheService has more callers than the service has streams. All mutations
// are done, each once, on as many connections as WithMaxConns allows.
func TestConcurrencyLimitOfTheService(t *testing.T) {
	// Go's server with a limit of 1 resets a stream while it still counts the one before.
	for _, streams := range []int{2, 5} {
		for _, conns := range []int{1, 2, 5} {
			t.Run(fmt.Sprintf("%d streams, %d connections", streams, conns), func(t *testing.T) {
				t.Parallel()
				s := newLimited(t, streams)
				client := wire.NewClient(t, s.URL, lending.WithTokenSource(lending.StaticToken("test-token")),
					lending.WithMaxConns(conns))
				var all sync.WaitGroup
				const callers, each = 20, 10
				for range callers {
					all.Go(func() {
						for range each {
							id := lending.ApplicationID(uuid.New())
							err := client.Applications.Cancel(t.Context(), id)
							for lending.OutcomeOf(err) == lending.OutcomeNotSent { // the service has refused the stream
								err = client.Applications.Cancel(t.Context(), id)
							}
							assert.NoError(t, err)
						}
					})
				}
				all.Wait()
				s.mu.Lock()
				defer s.mu.Unlock()
				require.Len(t, s.executed, callers*each)
				for _, n := range s.executed {
					require.Equal(t, 1, n)
				}
				assert.LessOrEqual(t, s.most, streams*conns)
			})
		}
	}
}
