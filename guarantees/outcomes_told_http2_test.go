package guarantees_test

import (
	"context"
	"encoding/binary"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/wire"
)

// TestRefusedOverHTTP2 has a service refuse a mutation in each of the ways for which net/http has words of
// its own. With other words of a new version of Go, the outcome would be unknown. After REFUSED_STREAM it is
// unknown: haproxy sends the code also for a mutation that ran.
func TestRefusedOverHTTP2(t *testing.T) {
	t.Parallel()
	number := func(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }
	limit := append([]byte{0, settingMaxHeaderList}, number(2000)...)
	for _, test := range []struct {
		name   string
		refuse func(c *h2Conn, stream uint32) bool
		header string // of the second request
		want   lending.Outcome
		says   string
	}{
		{"REFUSED_STREAM", func(c *h2Conn, stream uint32) bool {
			c.write(frameReset, 0, stream, number(codeRefused))
			return true
		}, "", lending.OutcomeUnknown, "the HTTP/2 stream was reset"},
		{"GOAWAY", func(c *h2Conn, stream uint32) bool {
			c.write(frameGoAway, 0, 0, append(number(stream-2), number(0)...))
			return true
		}, "", lending.OutcomeNotSent, "refused the HTTP/2 stream"},
		{"GOAWAY before, close", func(c *h2Conn, stream uint32) bool {
			c.write(frameGoAway, 0, 0, append(number(stream-2), number(0)...))
			return false
		}, "", lending.OutcomeNotSent, "refused the HTTP/2 stream"},
		{"long head", nil, strings.Repeat("x", 2000), lending.OutcomeNotSent, "exceeds the server's limit"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var requests, executed atomic.Int32
			call := 0
			client := wire.NewClient(t, "https://"+wire.ListenRaw(t, func(conn net.Conn) {
				secure := tlsHTTP2(conn)
				defer secure.Close()
				(&h2Conn{conn: secure, settings: limit, request: func(c *h2Conn, stream uint32) bool {
					if requests.Add(1) == 2 && test.refuse != nil {
						return test.refuse(c, stream)
					}
					executed.Add(1)
					c.respond(stream, "true")
					return true
				}}).serve()
			}), withToken, lending.WithHeader(func(_ context.Context, header http.Header) {
				if call++; call == 2 {
					header.Set("X-Test", test.header)
				}
			}))
			for i, want := range []lending.Outcome{lending.OutcomeDone, test.want, lending.OutcomeDone} {
				_, err := catalog.Calls["Approval.AddCompanyDetails"](t.Context(), client)
				require.Equal(t, want, lending.OutcomeOf(err), "call %d: %v", i, err)
				if err != nil {
					assert.ErrorContains(t, err, test.says)
				}
			}
			assert.EqualValues(t, 2, executed.Load())
		})
	}
}

// TestClientLearnsWhenAGatewayEndsConnections has a gateway that ends each connection after 100 requests, as nginx does
// with keepalive_requests 100. The request 101 of the first connection comes before the client has the GOAWAY, and is
// refused; the requests have no body. The next connections carry fewer requests.
func TestClientLearnsWhenAGatewayEndsConnections(t *testing.T) {
	t.Parallel()
	var connections atomic.Int32
	client := wire.NewClient(t, "https://"+wire.ListenRaw(t, func(conn net.Conn) {
		secure := tlsHTTP2(conn)
		defer secure.Close()
		connection, n := connections.Add(1), 0
		var last uint32
		(&h2Conn{conn: secure, request: func(c *h2Conn, stream uint32) bool {
			n++
			switch {
			case connection > 1 && n > 90:
				t.Errorf("request %d of connection %d", n, connection)
			case n == 100:
				last = stream
				return true // the response waits for the next request
			case n == 101:
				c.write(frameGoAway, 0, 0, binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, last), 0))
				stream = last
			}
			c.respond(stream, "true")
			return n <= 100
		}}).serve()
	}), withToken)
	refused := 0
	call := func(callers int) {
		outcomes := make(chan error, callers)
		for range callers {
			go func() { outcomes <- second(catalog.Calls["Applications.Cancel"](t.Context(), client)) }()
		}
		for range callers {
			if err := <-outcomes; err != nil {
				refused++
				assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err), err)
			}
		}
	}
	call(1)
	for range 150 {
		call(2)
	}
	assert.Equal(t, 1, refused)
	assert.EqualValues(t, 4, connections.Load())
}
