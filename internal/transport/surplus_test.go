package transport_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/internal/test/wire"
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

// A connection is read until its first request ends, which includes the handshake, and while it
// has a request. The next request may have the connection before the end of the first one is told.
func TestConnectionIsReadUnlessIdle(t *testing.T) {
	conn, service := openPipe(t)
	go func() {
		for range 4 {
			_, _ = io.WriteString(service, "x")
		}
	}()
	got := make([]byte, 10)
	requireRead := func() {
		t.Helper()
		n, err := conn.Read(got)
		require.NoError(t, err)
		require.Equal(t, "x", string(got[:n]))
	}
	var first, second transport.Use
	requireRead()
	first.Begin(conn)
	requireRead()
	second.Begin(conn)
	first.End()
	requireRead()
	second.End()
	_, err := conn.Read(got)
	require.Equal(t, io.EOF, err)
}

// No length in a response of a service or a proxy ends the process.
func TestHugeContentLengthEndsNoProcess(t *testing.T) {
	const length = "Content-Length: 9223372036854775807\r\n"
	for _, test := range []struct {
		name, head string
		isProxy    bool
	}{
		{"one", length, false},
		{"two", length + "Content-Length: 1\r\n", false},
		{"two alike", length + length, false},
		{"proxy", length, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			address := "http://" + wire.ListenRaw(t, func(conn net.Conn) {
				if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
					_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n"+test.head+"\r\nx")
				}
			})
			reads := transport.New(nil)
			if test.isProxy {
				proxy, err := url.Parse(address)
				require.NoError(t, err)
				reads.Proxy, address = http.ProxyURL(proxy), "https://lending.example"
			}
			transport.HideSurplus(reads)
			resp, err := (&http.Client{Transport: reads}).Get(address)
			if err == nil {
				_, err = io.Copy(&strings.Builder{}, resp.Body)
				_ = resp.Body.Close()
			}
			assert.Error(t, err)
		})
	}
}
