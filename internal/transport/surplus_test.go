package transport_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/internal/transport"
)

// A request that gets a connection with surplus does not read the surplus as its response.
func TestSurplusIsNoResponse(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	reads := http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return ours, nil }}
	transport.HideSurplus(&reads)
	conn, err := reads.DialContext(t.Context(), "", "")
	require.NoError(t, err)
	defer conn.Close()
	const first, second = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n2"
	go func() { _, _ = io.WriteString(theirs, first+second) }()

	var one, other transport.Use
	one.Begin(conn)
	got := make([]byte, 1000)
	n, err := conn.Read(got)
	require.NoError(t, err)
	assert.Equal(t, first, string(got[:n]))
	one.End()
	other.Begin(conn)
	_, err = conn.Read(got)
	assert.Equal(t, io.EOF, err)
}

// A connection that the service has closed ends with the error of its read.
func TestClosedConnectionEnds(t *testing.T) {
	ours, theirs := net.Pipe()
	require.NoError(t, theirs.Close())
	reads := http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return ours, nil }}
	transport.HideSurplus(&reads)
	conn, err := reads.DialContext(t.Context(), "", "")
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Read(make([]byte, 1))
	assert.Equal(t, io.EOF, err)
}
