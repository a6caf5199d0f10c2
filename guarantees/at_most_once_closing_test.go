package guarantees_test

import (
	"bufio"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"path"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/wire"
)

// closing is a service that closes connections without a request at a random moment.
type closing struct {
	mu       sync.Mutex
	arrivals map[string]int
}

func (s *closing) serve(conn net.Conn) {
	_ = conn.SetReadDeadline(time.Now().Add(rand.N(3 * time.Second)))
	reader := bufio.NewReader(conn)
	if _, err := reader.Peek(1); err != nil {
		return
	}
	_ = conn.SetReadDeadline(time.Time{})
	r, err := http.ReadRequest(reader)
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, r.Body)
	s.mu.Lock()
	s.arrivals[path.Base(r.URL.Path)]++
	s.mu.Unlock()
	_, _ = io.WriteString(conn, wire.RawReply(http.StatusOK, nil, "true"))
}

// TestClosedConnectionsLeaveNoDoubt has a service that closes connections while they wait for
// their request. Only mutations whose request meets the end of the connection on the way are in
// doubt: a few in a thousand on a busy machine. A client that used closed connections would leave
// one in ten in doubt. LENDING_TEST_CLOSING is the number of mutations.
func TestClosedConnectionsLeaveNoDoubt(t *testing.T) {
	t.Parallel()
	mutations := 2000
	if n, err := strconv.Atoi(os.Getenv("LENDING_TEST_CLOSING")); err == nil {
		mutations = n
	}
	const clients = 200
	token := lending.WithTokenSource(lending.StaticToken("test-token"))
	outcomes := func(opts ...lending.Option) map[lending.Outcome]int {
		service := &closing{arrivals: map[string]int{}}
		address := "http://" + wire.ListenRaw(t, service.serve)
		var mu sync.Mutex
		var all sync.WaitGroup
		found := map[lending.Outcome]int{}
		for range clients {
			client := wire.NewClient(t, address, append(opts, token)...)
			all.Go(func() {
				for range mutations / clients {
					id := lending.ApplicationID(uuid.New())
					outcome := lending.OutcomeOf(client.Applications.Cancel(t.Context(), id))
					mu.Lock()
					found[outcome]++
					mu.Unlock()
					<-time.After(rand.N(600 * time.Millisecond))
				}
			})
		}
		all.Wait()
		for _, n := range service.arrivals {
			require.Equal(t, 1, n)
		}
		return found
	}
	var without map[lending.Outcome]int
	var other sync.WaitGroup
	other.Go(func() { without = outcomes() })
	with := outcomes(lending.WithSpareConnections())
	other.Wait()
	t.Logf("of %d mutations: in doubt %d with spare connections, %d without", mutations,
		with[lending.OutcomeUnknown], without[lending.OutcomeUnknown])
	assert.Equal(t, mutations, with[lending.OutcomeDone]+with[lending.OutcomeUnknown])
	assert.LessOrEqual(t, with[lending.OutcomeUnknown], without[lending.OutcomeUnknown]+mutations/50)
}

// TestSpareThatClosesBeforeTheRequest has the service close a spare connection when net/http has
// it, just before the request: the mutation runs once on another connection. If the service is
// gone, the mutation was not sent.
func TestSpareThatClosesBeforeTheRequest(t *testing.T) {
	for _, test := range []struct {
		name   string
		isGone bool
		want   lending.Outcome
	}{{"closed", false, lending.OutcomeDone}, {"gone", true, lending.OutcomeNotSent}} {
		t.Run(test.name, func(t *testing.T) {
			connected := make(chan net.Conn, 10)
			var arrivals atomic.Int32
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				arrivals.Add(1)
				wire.Answer(http.StatusOK, "true")(w, r)
			}))
			server.Config.ConnState = func(c net.Conn, state http.ConnState) {
				if state == http.StateNew {
					connected <- c
				}
			}
			server.Start()
			defer server.Close()
			client := wire.NewClient(t, server.URL, lending.WithTokenSource(lending.StaticToken("test-token")),
				lending.WithSpareConnections(), lending.WithMaxConns(2))
			require.NoError(t, client.Applications.Cancel(t.Context(), catalog.Application))
			<-connected // of the mutation
			spare := <-connected
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
				if test.isGone {
					_ = server.Listener.Close()
				}
				for more := true; more; { // and another that may already be there
					_ = spare.(*net.TCPConn).SetLinger(60) // Close returns when the client's system knows
					_ = spare.Close()
					select {
					case spare = <-connected:
					default:
						more = false
					}
				}
			}})
			assert.Equal(t, test.want, lending.OutcomeOf(client.Applications.Cancel(ctx, catalog.Application)))
			assert.EqualValues(t, map[bool]int{false: 2, true: 1}[test.isGone], arrivals.Load())
		})
	}
}
