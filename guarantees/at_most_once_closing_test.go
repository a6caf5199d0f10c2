package guarantees_test

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
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

// idling is a service that closes idle connections at a random moment, over both protocols.
type idling struct {
	way string // of closing

	mu       sync.Mutex
	arrivals map[string]int
	conns    int
}

// serve ends a connection that is idle for too long.
func (s *idling) serve(conn net.Conn) {
	secure := tlsHTTP2(conn).(*tls.Conn)
	if secure.Handshake() != nil {
		return
	}
	s.mu.Lock()
	s.conns++
	s.mu.Unlock()
	if secure.ConnectionState().NegotiatedProtocol != "h2" {
		s.serveHTTP1(secure)
		return
	}
	last := uint32(0)
	c := &h2Conn{conn: secure}
	c.request = func(c *h2Conn, stream uint32) bool {
		s.arrived(c.bodies[stream])
		last = stream
		c.respond(stream, "true")
		return true
	}
	c.idle = func(reader *bufio.Reader) {
		if s.waits(secure, reader) {
			return
		}
		if s.way == "GOAWAY" {
			c.write(frameGoAway, 0, 0, binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, last), 0))
		}
		s.close(secure)
	}
	c.serve()
}

func (s *idling) serveHTTP1(secure *tls.Conn) {
	reader := bufio.NewReader(secure)
	if !s.waits(secure, reader) {
		s.close(secure)
		return
	}
	r, err := http.ReadRequest(reader)
	if err != nil {
		return
	}
	body, _ := io.ReadAll(r.Body)
	s.arrived(body)
	_, _ = io.WriteString(secure, wire.RawReply(http.StatusOK, nil, "true"))
}

func (s *idling) arrived(body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arrivals[string(body)]++
}

// waits reports whether a byte comes in time.
func (s *idling) waits(secure *tls.Conn, reader *bufio.Reader) bool {
	_ = secure.SetReadDeadline(time.Now().Add(rand.N(time.Second)))
	defer func() { _ = secure.SetReadDeadline(time.Time{}) }()
	_, err := reader.Peek(1)
	return err == nil
}

func (s *idling) close(secure *tls.Conn) {
	switch s.way {
	case "reset":
		reset(secure.NetConn())
	case "silent":
		_ = secure.NetConn().Close()
	default:
		_ = secure.Close()
	}
}

// TestClosedConnectionsSendNothingTwice has a service close idle connections at a random moment in
// each of the usual ways. Only mutations that meet the end of a connection on the way are in doubt: a
// few in 10,000 on a quiet machine, and at most one for each connection.
// LENDING_TEST_CLOSING is the number of mutations.
func TestClosedConnectionsSendNothingTwice(t *testing.T) {
	t.Parallel()
	mutations := 250
	if n, err := strconv.Atoi(os.Getenv("LENDING_TEST_CLOSING")); err == nil {
		mutations = n
	}
	for _, way := range []string{"silent", "close_notify", "GOAWAY", "reset"} {
		// A connection of HTTP/1.1 is new and has one mutation, which seldom meets its end.
		for _, row := range []struct {
			name      string
			mutations int
			opts      []lending.Option
		}{{"shared", mutations, nil}, {"alone", mutations / 5, []lending.Option{lending.WithoutHTTP2()}}} {
			t.Run(way+", "+row.name, func(t *testing.T) {
				if mutations <= 250 {
					t.Parallel()
				}
				found, conns := mutateWhileClosing(t, way, row.mutations, row.opts...)
				t.Logf("of %d mutations on %d connections: %v", row.mutations, conns, found)
				assert.LessOrEqual(t, found[lending.OutcomeUnknown]+found[lending.OutcomeNotSent], conns)
			})
		}
	}
}

// mutateWhileClosing makes mutations by many clients, and returns their outcomes and the number of
// connections.
func mutateWhileClosing(
	t *testing.T, way string, mutations int, opts ...lending.Option,
) (found map[lending.Outcome]int, conns int) {
	t.Helper()
	const each = 10
	service := &idling{way: way, arrivals: map[string]int{}}
	address := "https://" + wire.ListenRaw(t, service.serve)
	var mu sync.Mutex
	var all sync.WaitGroup
	found = map[lending.Outcome]int{}
	gate := make(chan struct{}, 200)
	for range mutations / each {
		client := wire.NewClient(t, address, append(opts, withToken)...)
		gate <- struct{}{}
		all.Go(func() {
			defer func() { <-gate }()
			for range each {
				err := client.Approval.AddCompanyDetails(t.Context(), lending.ApplicationID(uuid.New()),
					lending.CompanyDataRequest{Extra: map[string]string{"id": uuid.NewString()}})
				mu.Lock()
				if found[lending.OutcomeOf(err)]++; err != nil && testing.Verbose() {
					t.Log(err)
				}
				mu.Unlock()
				<-time.After(rand.N(200 * time.Millisecond))
			}
		})
	}
	all.Wait()
	service.mu.Lock()
	defer service.mu.Unlock()
	for body, n := range service.arrivals {
		require.Equal(t, 1, n, body)
	}
	assert.Equal(t, mutations, found[lending.OutcomeDone]+found[lending.OutcomeUnknown]+found[lending.OutcomeNotSent])
	assert.GreaterOrEqual(t, len(service.arrivals), found[lending.OutcomeDone])
	assert.LessOrEqual(t, len(service.arrivals), found[lending.OutcomeDone]+found[lending.OutcomeUnknown])
	return found, service.conns
}
