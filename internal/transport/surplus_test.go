package transport_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/internal/transport"
)

// openPipe returns a connection of reads, and its other end.
func openPipe(t *testing.T) (conn, service net.Conn) {
	t.Helper()
	ours, service := net.Pipe()
	reads := http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return ours, nil }}
	transport.HideSurplus(&reads)
	conn, err := reads.DialContext(t.Context(), "", "")
	require.NoError(t, err)
	t.Cleanup(func() { _ = errors.Join(conn.Close(), service.Close()) })
	return conn, service
}

// requireRead reads want, in one piece.
func requireRead(t *testing.T, conn net.Conn, want string) {
	t.Helper()
	got := make([]byte, 1000)
	n, err := conn.Read(got)
	require.NoError(t, err)
	require.Equal(t, want, string(got[:n]))
}

func requireEOF(t *testing.T, conn net.Conn) {
	t.Helper()
	_, err := conn.Read(make([]byte, 1))
	require.Equal(t, io.EOF, err)
}

// A request that gets a connection with surplus does not read the surplus as its response. net/http
// may hand over the connection before it tells the end of the request before.
func TestSurplusIsNoResponse(t *testing.T) {
	for _, isEarly := range []bool{false, true} {
		t.Run(fmt.Sprint("early ", isEarly), func(t *testing.T) {
			conn, service := openPipe(t)
			const head = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n"
			go func() { _, _ = io.WriteString(service, head+"1"+head+"2") }()

			var one, other transport.Use
			one.Begin(conn)
			requireRead(t, conn, head+"1")
			if isEarly {
				other.Begin(conn)
			}
			one.End()
			if !isEarly {
				other.Begin(conn)
			}
			requireEOF(t, conn)
		})
	}
}

// Records of the handshake that come before the first request are no surplus.
func TestRecordsOfTheHandshakeAreRead(t *testing.T) {
	conn, service := openPipe(t)
	const record = "\x16\x03\x03\x00\x01x"
	go func() {
		_, _ = service.Read(make([]byte, 1))
		_, _ = io.WriteString(service, record+record)
		_, _ = io.WriteString(service, "while idle")
	}()
	_, err := conn.Write([]byte(record[:1]))
	require.NoError(t, err)
	requireRead(t, conn, record)
	var use transport.Use
	use.Begin(conn)
	requireRead(t, conn, record)
	use.End()
	requireEOF(t, conn)
}

// A connection that the service has closed ends with the error of its read.
func TestClosedConnectionEnds(t *testing.T) {
	conn, service := openPipe(t)
	require.NoError(t, service.Close())
	requireEOF(t, conn)
}
