package lending

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTransportIsBounded holds that no stage of a connection can last for ever, in a
// bubble: the service is the other end of a pipe.
func TestTransportIsBounded(t *testing.T) {
	for _, test := range []struct {
		name   string
		url    string
		answer string
		want   time.Duration // until the connection is closed
	}{
		{"silent in the handshake", "https://service.example", "", 10 * time.Second},
		{"silent after the request", "http://service.example", "", 100 * time.Second},
		{"idle", "http://service.example", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n\"x\"", 4 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				transport := newTransport(defaultMaxConns)
				transport.Proxy = nil
				closed := make(chan time.Duration, 1)
				transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
					ours, theirs := net.Pipe()
					start := time.Now()
					go func() {
						in := bufio.NewReader(theirs)
						if test.answer != "" {
							_, err := http.ReadRequest(in)
							assert.NoError(t, err)
							_, _ = io.WriteString(theirs, test.answer)
						}
						_, _ = io.Copy(io.Discard, in)
						closed <- time.Since(start)
					}()
					return ours, nil
				}
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, test.url, nil)
				require.NoError(t, err)
				resp, err := transport.RoundTrip(req)
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
					require.NoError(t, resp.Body.Close())
				}
				assert.Equal(t, test.answer == "", err != nil, err)
				assert.Equal(t, test.want, <-closed)
			})
		})
	}
	transport := newTransport(defaultMaxConns)
	assert.NotZero(t, transport.ExpectContinueTimeout)
	assert.NotZero(t, transport.MaxResponseHeaderBytes)
	assert.False(t, transport.DisableKeepAlives)
}

// TestTransportSpeaksNoHTTP2 holds that even a service that offers HTTP/2 gets HTTP/1.1:
// HTTP/2 repeats requests by itself.
func TestTransportSpeaksNoHTTP2(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_,
			_ = io.WriteString(w, "{}")
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	transport := newTransport(defaultMaxConns)
	defer transport.CloseIdleConnections()
	transport.TLSClientConfig = server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	transport.TLSClientConfig.NextProtos = nil
	resp, err := (&http.Client{Transport: transport}).Get(server.URL)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, "HTTP/1.1", resp.Proto)
	assert.False(t, transport.Protocols.HTTP2() || transport.Protocols.UnencryptedHTTP2())
}

// The version is that of the module in the running program, of what replaces it if
// anything does, and none for a folder.
func TestVersion(t *testing.T) {
	const path = "github.com/lendingapi/lending-go"
	for _, test := range []struct {
		want string
		own  *debug.Module
	}{
		{"v1.2.3", &debug.Module{Path: path, Version: "v1.2.3"}},
		{"v1.2.4", &debug.Module{Path: path, Version: "v1.2.3", Replace: &debug.Module{Path: "example.com/fork",
			Version: "v1.2.4"}}},
		{"devel", &debug.Module{Path: path, Version: "v0.0.0-00010101000000-000000000000",
			Replace: &debug.Module{Path: "../lending-go"}}},
	} {
		t.Run(test.want, func(t *testing.T) {
			info := &debug.BuildInfo{Main: debug.Module{Path: "example.com/shop", Version: "v9.9.9"},
				Deps: []*debug.Module{{Path: "example.com/x", Version: "v3.0.0"}, test.own}}
			assert.Equal(t, test.want, versionIn(info))
		})
	}
	assert.Equal(t, "devel", versionIn(&debug.BuildInfo{Main: debug.Module{Path: path, Version: "(devel)"}}))
}

// TestCommandsResumeTLS holds that the connection of a command costs no whole handshake
// where there was one before.
func TestCommandsResumeTLS(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_,
			_ = io.WriteString(w, "true")
	}))
	defer server.Close()
	pooled := newTransport(defaultMaxConns)
	pooled.TLSClientConfig.RootCAs = server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	hc := &http.Client{Transport: onceEach(pooled)}
	for _, resumes := range []bool{false, true, true} {
		t.Run(fmt.Sprint(resumes), func(t *testing.T) {
			resp, err := hc.Post(server.URL, "application/json", strings.NewReader("{}"))
			require.NoError(t, err)
			_, err = io.Copy(io.Discard, resp.Body)
			require.NoError(t, errors.Join(err, resp.Body.Close()))
			assert.Equal(t, resumes, resp.TLS.DidResume)
		})
	}
}

// FuzzRetryAfter holds that no header makes a caller wait for less than nothing or
// more than a day.
func FuzzRetryAfter(f *testing.F) {
	for _, seed := range []string{
		"", "0", "120", "-1", "9223372037", "18446744073709551616", "1.5", "+5", "Fri, 31 Dec 1999 23:59:59 GMT",
		"Fri, 31 Dec 9999 23:59:59 GMT", "Friday, 31-Dec-99 23:59:59 GMT", "\x00",
	} {
		f.Add(seed, "Fri, 31 Dec 1999 23:59:00 GMT")
		f.Add(seed, "")
	}
	f.Fuzz(func(t *testing.T, text, date string) {
		wait := retryAfter(http.Header{"Retry-After": {text}, "Date": {date}})
		assert.GreaterOrEqual(t, wait, time.Duration(0))
		assert.LessOrEqual(t, wait, 24*time.Hour)
	})
}
