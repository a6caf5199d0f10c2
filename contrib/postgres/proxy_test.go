package lendingpostgres_test

import (
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// proxy forwards connections to a server and cuts them.
type proxy struct {
	url    string
	server string // its socket

	requests atomic.Int32 // number of statements that do not arrive
	answers  atomic.Int32 // number of committed statements whose answer does not arrive
}

// newProxy returns a proxy for the server of a URL.
func newProxy(t *testing.T, address string) *proxy {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	query := u.Query()
	p := &proxy{server: filepath.Join(query.Get("host"), ".s.PGSQL.5432")}
	directory, err := os.MkdirTemp("", "lending") //nolint:usetesting // t.TempDir may be too long for a socket
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(directory) })
	listener, err := net.Listen("unix", filepath.Join(directory, ".s.PGSQL.5432"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	query.Set("host", directory)
	u.RawQuery = query.Encode()
	p.url = u.String()
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go p.serve(client)
		}
	}()
	return p
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("unix", p.server)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		defer client.Close()
		defer server.Close()
		err := pass(server, client, 0, nil) // the first message has no type
		for err == nil {
			err = pass(server, client, 1, func(kind byte) bool {
				return (kind == 'E' || kind == 'Q') &&
					take(&p.requests)
			})
		}
	}()
	complete := false
	for err == nil {
		err = pass(client, server, 1, func(kind byte) bool {
			cut := kind == 'Z' && complete && take(&p.answers) // it has been committed
			complete = kind == 'C' || complete && kind != 'Z'
			return cut
		})
	}
}

// pass copies a message, unless the message is cut. Its length follows a type of the given size.
func pass(to io.Writer, from io.Reader, kind int, cut func(kind byte) bool) error {
	header := make([]byte, kind+4)
	if _, err := io.ReadFull(from, header); err != nil {
		return err
	}
	if cut != nil && cut(header[0]) {
		return io.ErrClosedPipe
	}
	if _, err := to.Write(header); err != nil {
		return err
	}
	_, err := io.CopyN(to, from, int64(binary.BigEndian.Uint32(header[kind:]))-4)
	return err
}

// take decrements the number and reports whether it was positive.
func take(n *atomic.Int32) bool {
	for {
		left := n.Load()
		if left == 0 {
			return false
		}
		if n.CompareAndSwap(left, left-1) {
			return true
		}
	}
}
