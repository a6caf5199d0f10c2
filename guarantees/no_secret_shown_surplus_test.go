package guarantees_test

import (
	"bufio"
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

// surplus answers each request of a connection with the last element of its path, and then, when late
// has an element, with surplusCanary.
func surplus(conn net.Conn, late <-chan struct{}) {
	for in := bufio.NewReader(conn); ; {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, wire.RawReply(200, nil, `"`+path.Base(r.URL.Path)+`"`))
		<-late
		_, _ = io.WriteString(conn, wire.RawReply(200, nil, `"`+surplusCanary+`"`))
	}
}

// net/http prints a response that arrives on an idle connection through the standard log package,
// unless the connection ends.
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
		assert.Equal(t, 2, strings.Count(string(out), "connections for 50 reads"))
		return
	}
	for _, scheme := range []string{"http", "https"} {
		t.Run(scheme, func(t *testing.T) { readBesideSurplus(t, scheme) })
	}
}

func readBesideSurplus(t *testing.T, scheme string) {
	t.Helper()
	var connections atomic.Int32
	late, ended := make(chan struct{}), make(chan struct{}, 100)
	client := wire.NewClient(t, scheme+"://"+wire.ListenRaw(t, func(conn net.Conn) {
		connections.Add(1)
		if scheme == "https" {
			conn = tlsHTTP1(conn)
			defer conn.Close()
		}
		surplus(conn, late)
		ended <- struct{}{}
	}), withToken)
	const reads = 50
	for range reads {
		want := uuid.New().String()
		got, err := client.Applications.Status(t.Context(), lending.ApplicationID(uuid.MustParse(want)))
		require.NoError(t, err)
		require.Equal(t, want, got)
		late <- struct{}{}
		<-ended
	}
	t.Logf("%d connections for %d reads", connections.Load(), reads)
}
