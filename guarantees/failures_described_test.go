package guarantees_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/wire"
)

const invalidHTTP = "the answer is not valid HTTP; check the address, and the gateway"

// TestEveryFailureOfAConnectionHasAText has a service break the rules of HTTP. The text of the error has the cause
// and the remedy, and never the bytes of the service.
func TestEveryFailureOfAConnectionHasAText(t *testing.T) {
	t.Parallel()
	frame := func(kind, flags byte, payload string) func(*h2Conn, uint32) bool {
		return func(c *h2Conn, stream uint32) bool {
			c.write(kind, flags, stream, []byte(payload))
			return true
		}
	}
	const ok = "HTTP/1.1 200 OK\r\n"
	for _, test := range []struct {
		name, want string
		raw        string                     // of HTTP/1.1
		frames     func(*h2Conn, uint32) bool // in place of raw
	}{
		{"status", invalidHTTP, "HTTP/1.1 c4n4ry\r\n\r\n", nil},
		{"field", invalidHTTP, ok + "c4n4ry\r\n\r\n", nil},
		{"length", invalidHTTP, ok + "Content-Length: c4n4ry\r\n\r\n", nil},
		{"two lengths", invalidHTTP, ok + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n", nil},
		{"encoding", invalidHTTP, ok + "Transfer-Encoding: c4n4ry\r\n\r\n", nil},
		{"two encodings", invalidHTTP, ok + "Transfer-Encoding: chunked\r\nTransfer-Encoding: c4n4ry\r\n\r\n", nil},
		{"chunk", invalidHTTP, ok + "Transfer-Encoding: chunked\r\n\r\nc4n4ry\r\n", nil},
		{"long chunk", invalidHTTP, ok + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n", nil},
		{"end of a chunk", invalidHTTP, ok + "Transfer-Encoding: chunked\r\n\r\n1\r\nc4n4ry", nil},
		{"trailer", invalidHTTP, ok + "Transfer-Encoding: chunked\r\n\r\n1\r\n1\r\n0\r\nc4n4ry: 1", nil},
		{"gzip", invalidHTTP, ok + "Content-Encoding: gzip\r\nContent-Length: 12\r\n\r\nc4n4ryc4n4ry", nil},
		{
			"deflate", invalidHTTP,
			ok + "Content-Encoding: gzip\r\nContent-Length: 14\r\n\r\n\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x07\x07\x07\x07", nil,
		},
		{
			"long head", "the head of the answer is too large; check the gateway",
			ok + "A: " + strings.Repeat("c4n4ry", 50<<10) + "\r\n\r\n", nil,
		},
		{"HTTP/2, no status", invalidHTTP, "", frame(frameHeaders, flagEndHeaders|flagEndStream, "")},
		{"HTTP/2, HPACK", invalidHTTP, "", frame(frameHeaders, flagEndHeaders|flagEndStream, "\xff\xff\xff\xff\xff\xff")},
		{"HTTP/2, large frame", invalidHTTP, "", frame(frameData, 0, strings.Repeat("c4n4ry", 1<<20))},
		{"HTTP/2, status", invalidHTTP, "", frame(frameHeaders, flagEndHeaders|flagEndStream, "\x08\x03c4n")},
		{"HTTP/2, interim", invalidHTTP, "", frame(frameHeaders, flagEndHeaders|flagEndStream, "\x08\x03103")},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			address := "http://"
			serve := func(conn net.Conn) {
				if r, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
					_, _ = io.Copy(io.Discard, r.Body)
					_, _ = io.WriteString(conn, test.raw)
				}
			}
			if test.frames != nil {
				address = "https://"
				serve = func(conn net.Conn) { (&h2Conn{conn: tlsHTTP2(conn), request: test.frames}).serve() }
			}
			client := wire.NewClient(t, address+wire.ListenRaw(t, serve), withToken, lending.WithReadRetries(0))
			_, mutation := catalog.Calls["Approval.AddCompanyDetails"](t.Context(), client)
			assert.ErrorContains(t, mutation, test.want)
			assert.NotContains(t, fmt.Sprint(mutation, errors.Unwrap(mutation)), "c4n4")
			if test.raw != "" {
				_, err := client.Applications.Status(t.Context(), catalog.Application)
				assert.ErrorContains(t, err, test.want)
			}
		})
	}
}
