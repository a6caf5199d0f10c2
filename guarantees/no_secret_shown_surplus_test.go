package guarantees_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/wire"
)

const surplusCanary = "canary-of-a-late-response"

// surplus answers each request of a connection with the last element of its path, and then with
// surplusCanary: in the same segment, or when late has an element. Over TLS each response is a record.
func surplus(conn net.Conn, late <-chan struct{}, isChunked bool) {
	for in := bufio.NewReader(conn); ; {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		response := func(id string) string {
			if isChunked {
				return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"+
					"%x\r\n\"%s\"\r\n0\r\n\r\n", len(id)+2, id)
			}
			return wire.RawReply(200, nil, `"`+id+`"`)
		}
		first, second := response(path.Base(r.URL.Path)), response(surplusCanary)
		switch secure, ok := conn.(*tls.Conn); {
		case late != nil:
			_, _ = io.WriteString(conn, first)
			<-late
			_, _ = io.WriteString(conn, second)
		case ok:
			below := secure.NetConn().(*heldConn)
			below.isHolding = true
			_, _ = io.WriteString(conn, first)
			_, _ = io.WriteString(conn, second)
			below.release()
		default:
			_, _ = io.WriteString(conn, first+second)
		}
	}
}

// heldConn writes what it holds at once.
type heldConn struct {
	net.Conn

	isHolding bool
	held      []byte
}

func (c *heldConn) Write(b []byte) (int, error) {
	if c.isHolding {
		c.held = append(c.held, b...)
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (c *heldConn) release() {
	_, _ = c.Conn.Write(c.held)
	c.isHolding, c.held = false, nil
}

// net/http prints a response that nobody asked for through the standard log package, if the read
// loop of an idle connection meets the response.
func TestSurplusResponseIsNotPrinted(t *testing.T) {
	const child = "LENDING_TEST_SURPLUS"
	if os.Getenv(child) == "" {
		t.Parallel()
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), child+"=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		assert.NotContains(t, string(out), "Unsolicited")
		assert.NotContains(t, string(out), surplusCanary)
		assert.Equal(t, 8, strings.Count(string(out), "connections for 50 reads"))
		return
	}
	for _, scheme := range []string{"http", "https"} {
		for _, isLate := range []bool{false, true} {
			for _, isChunked := range []bool{false, true} {
				t.Run(fmt.Sprint(scheme, " late ", isLate, " chunked ", isChunked), func(t *testing.T) {
					readBesideSurplus(t, scheme, isLate, isChunked)
				})
			}
		}
	}
}

func readBesideSurplus(t *testing.T, scheme string, isLate, isChunked bool) {
	t.Helper()
	var connections atomic.Int32
	var late chan struct{}
	if isLate {
		late = make(chan struct{})
	}
	ended := make(chan struct{}, 100)
	client := wire.NewClient(t, scheme+"://"+wire.ListenRaw(t, func(conn net.Conn) {
		connections.Add(1)
		if scheme == "https" {
			conn = tlsHTTP1(&heldConn{Conn: conn})
			defer conn.Close()
		}
		surplus(conn, late, isChunked)
		ended <- struct{}{}
	}), lending.WithTokenSource(lending.StaticToken("t")))
	const reads = 50
	for range reads {
		want := uuid.New().String()
		got, err := client.Applications.Status(t.Context(), lending.ApplicationID(uuid.MustParse(want)))
		require.NoError(t, err)
		require.Equal(t, want, got)
		if isLate {
			late <- struct{}{}
			<-ended
		}
	}
	t.Logf("%d connections for %d reads", connections.Load(), reads)
}
