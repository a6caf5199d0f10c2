package gateways_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/lendingapi/lending-go"
	"github.com/stretchr/testify/assert"
)

// kestrel is a server of HTTP/2 that counts handlers as Kestrel does: those of given-up calls too. Above 200 on a
// connection it resets new streams, and after ten resets it closes the connection.
type kestrel struct {
	*httptest.Server
	slow time.Duration // the time of Process; other mutations take 250 ms

	mu     sync.Mutex
	conns  map[net.Conn]*struct{ running, refused int }
	closed int // connections
}

type connection struct{}

func newKestrel(t *testing.T, slow time.Duration) *kestrel {
	t.Helper()
	k := &kestrel{slow: slow, conns: map[net.Conn]*struct{ running, refused int }{}}
	k.Server = httptest.NewUnstartedServer(k)
	k.EnableHTTP2 = true
	k.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 1000}
	k.Config.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		return context.WithValue(ctx, connection{}, conn)
	}
	k.StartTLS()
	t.Cleanup(k.Close)
	return k
}

func (k *kestrel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	conn := r.Context().Value(connection{}).(net.Conn)
	k.mu.Lock()
	of := k.conns[conn]
	if of == nil {
		of = new(struct{ running, refused int })
		k.conns[conn] = of
	}
	isRefused := of.running >= 200
	if isRefused {
		if of.refused++; of.refused == 10 {
			k.closed++
			_ = conn.Close()
		}
	} else {
		of.running++
	}
	k.mu.Unlock()
	if isRefused {
		panic(http.ErrAbortHandler)
	}
	defer func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		of.running--
	}()
	if strings.Contains(r.URL.Path, "/process-application/") {
		<-time.After(k.slow)
	} else {
		<-time.After(250 * time.Millisecond)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprint(w, `"c0000000-0000-4000-8000-000000000001"`)
}

// TestGivenUpCallsAtKestrel has 90 callers, of whom half call a mutation that takes longer than the deadline.
func TestGivenUpCallsAtKestrel(t *testing.T) {
	if document == "" {
		t.Skip("the short form leaves the measurement out")
	}
	text := "| deadline of the callers | response of Process after | mutations of the others " +
		"| unknown | connections closed |\n" +
		"|--:|--:|--:|--:|--:|\n"
	for _, deadline := range []time.Duration{500 * time.Millisecond, 5 * time.Second} {
		const slow = 4 * time.Second
		k := newKestrel(t, slow)
		client := newClient(t, k.URL)
		var innocent, unknown atomic.Int64
		end := time.Now().Add(8 * time.Second)
		var all sync.WaitGroup
		for n := range 90 {
			all.Go(func() {
				for time.Now().Before(end) {
					ctx, cancel := context.WithTimeout(t.Context(), deadline)
					id := lending.ApplicationID(uuid.New())
					if n%2 == 0 {
						_, _ = client.Applications.Process(ctx, id)
					} else if err := client.Applications.Cancel(ctx, id); ctx.Err() == nil { // else the machine is busy
						innocent.Add(1)
						if err != nil && lending.OutcomeOf(err) == lending.OutcomeUnknown {
							unknown.Add(1)
						}
					}
					cancel()
				}
			})
		}
		all.Wait()
		k.mu.Lock()
		text += fmt.Sprintf("| %s | %s | %d | %d | %d |\n", deadline, slow, innocent.Load(), unknown.Load(), k.closed)
		k.mu.Unlock()
		assert.Equal(t, deadline > slow, unknown.Load() == 0)
	}
	t.Log(text)
	write(t, "kestrel", text)
}
