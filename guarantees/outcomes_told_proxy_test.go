package guarantees_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/wire"
)

// answers is a proxy that responds to each CONNECT with text.
func answers(text string) func(net.Conn) {
	return func(conn net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
			_, _ = io.WriteString(conn, text)
		}
	}
}

// refusesSOCKS is a proxy that accepts each client and refuses each connection (RFC 1928).
func refusesSOCKS(conn net.Conn) {
	head := make([]byte, 2)
	if _, err := io.ReadFull(conn, head); err != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, conn, int64(head[1]))
	_, _ = conn.Write([]byte{5, 0})
	_, _ = io.ReadFull(conn, make([]byte, 4))
	_, _ = conn.Write([]byte{5, 5, 0, 1, 0, 0, 0, 0, 0, 0}) // connection refused
}

// The error names the unreachable address without the proxy's text and credentials, and says "not
// sent" if that is certain.
func TestProxyFailureIsNamedAndNotSent(t *testing.T) {
	if os.Getenv("LENDING_TEST_PROXY") != "" { // the child, see below
		var shown bytes.Buffer
		callThroughProxy(t, &shown, nil)
		t.Log(shown.String())
		return
	}
	secure := httptest.NewUnstartedServer(nil)
	secure.Config.ErrorLog = quietLog
	secure.StartTLS()
	t.Cleanup(secure.Close)
	talks := wire.ListenRaw(t, answers("HTTP/1.1 407 c4n4ry\r\nContent-Length: 6\r\n\r\nc4n4ry"))
	fails := wire.ListenRaw(t, answers("HTTP/1.1 502 c4n4ry\r\n\r\n"))
	const unknown = "the http.Client failed: " +
		"an error of type *errors.errorString, not shown because its text may be confidential"
	const dead = "127.0.0.1:1"
	for _, test := range []struct {
		name    string
		proxy   string // its scheme and address
		want    string
		foreign string // the error's text with a caller's http.Client, if the outcome is unknown there
	}{
		{"dead", "http://" + dead, "the proxy cannot be reached: cannot connect to " + dead, ""},
		{"dead, TLS", "https://" + dead, "the proxy cannot be reached: cannot connect to " + dead, ""},
		{"dead, SOCKS", "socks5://" + dead, "the proxy cannot be reached: cannot connect to " + dead, ""},
		{
			"certificate of another", strings.Replace(secure.URL, "127.0.0.1", "localhost", 1),
			"the proxy cannot be reached: TLS certificate not accepted: of another host", "",
		},
		{
			"no TLS", "https://" + wire.ListenRaw(t, answersAnything),
			"the proxy cannot be reached: the server does not speak TLS", "",
		},
		{
			"SOCKS, refuses", "socks5://" + wire.ListenRaw(t, refusesSOCKS),
			"the proxy does not connect to lending.example:443", "",
		},
		{
			"wants a password", "http://" + talks, "the proxy " + talks + " answered 407 Proxy Authentication Required",
			unknown,
		},
		{
			"wants a password, has none", "http://@" + talks,
			"the proxy " + talks + " answered 407 Proxy Authentication Required", unknown,
		},
		{
			"finds no service", "http://" + fails, "the proxy " + fails + " answered 502 Bad Gateway",
			unknown,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			const user = "://c4n4ry-user:c4n4ry-password@"
			address, err := url.Parse(strings.NewReplacer("://@", "://", "://", user).Replace(test.proxy))
			require.NoError(t, err)

			var foreign bytes.Buffer
			outcome := callThroughProxy(t, &foreign,
				&http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(address)}})
			if want := test.foreign; want != "" {
				assert.Contains(t, foreign.String(), want)
				assert.Equal(t, lending.OutcomeUnknown, outcome)
			} else {
				assert.Contains(t, foreign.String(), test.want)
				assert.Equal(t, lending.OutcomeNotSent, outcome, foreign.String())
			}
			assert.NotContains(t, foreign.String(), "c4n4ry")

			// The package's own transport takes its proxy from the environment, once in a process.
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestProxyFailureIsNamedAndNotSent$", "-test.v")
			child.Env = append(os.Environ(), "LENDING_TEST_PROXY=1", "HTTPS_PROXY="+address.String(), "NO_PROXY=")
			said, err := child.CombinedOutput()
			require.NoError(t, err, "%s", said)
			assert.Regexp(t, regexp.QuoteMeta(test.want)+"(; check (WithTLS|HTTPS_PROXY))?: not sent", string(said))
			assert.Equal(t, test.foreign != "", strings.Contains(string(said), "; check HTTPS_PROXY"))
			assert.NotContains(t, string(said), "c4n4ry")
		})
	}
}

// answersAnything is a proxy without TLS.
func answersAnything(conn net.Conn) {
	_, _ = conn.Read(make([]byte, 1<<10))
	_, _ = io.WriteString(conn, "HTTP/1.1 400 c4n4ry\r\n\r\n")
}

// callThroughProxy makes a mutation fail, and prints its error in every way.
func callThroughProxy(t *testing.T, shown *bytes.Buffer, hc *http.Client) lending.Outcome {
	t.Helper()
	err := benchmarkClient(t, "https://lending.example", hc).Applications.Cancel(t.Context(), catalog.Application)
	require.Error(t, err)
	fmt.Fprintln(shown, err)
	show(shown, chain(err)...)
	return lending.OutcomeOf(err)
}
