package guarantees_test

import (
	"bufio"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
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
	const clients = 100
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
	other.Go(func() { without = outcomes(lending.WithoutSpareConnections()) })
	with := outcomes()
	other.Wait()
	t.Logf("of %d mutations: in doubt %d with spare connections, %d without", mutations,
		with[lending.OutcomeUnknown], without[lending.OutcomeUnknown])
	assert.Equal(t, mutations, with[lending.OutcomeDone]+with[lending.OutcomeUnknown])
	assert.LessOrEqual(t, with[lending.OutcomeUnknown], without[lending.OutcomeUnknown]+mutations/50)
}
