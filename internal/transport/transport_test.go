package transport_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/internal/transport"
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
				one := transport.New(256)
				one.Proxy = nil
				closed := make(chan time.Duration, 1)
				one.DialContext = func(context.Context, string, string) (net.Conn, error) {
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
				resp, err := one.RoundTrip(req)
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
					require.NoError(t, resp.Body.Close())
				}
				assert.Equal(t, test.answer == "", err != nil, err)
				assert.Equal(t, test.want, <-closed)
			})
		})
	}
	one := transport.New(256)
	assert.NotZero(t, one.ExpectContinueTimeout)
	assert.NotZero(t, one.MaxResponseHeaderBytes)
	assert.False(t, one.DisableKeepAlives)
}

// TestTransportSpeaksNoHTTP2 holds that even a service that offers HTTP/2 gets HTTP/1.1:
// HTTP/2 repeats requests by itself.
func TestTransportSpeaksNoHTTP2(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "{}")
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	one := transport.New(256)
	defer one.CloseIdleConnections()
	one.TLSClientConfig = server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	one.TLSClientConfig.NextProtos = nil
	resp, err := (&http.Client{Transport: one}).Get(server.URL)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, "HTTP/1.1", resp.Proto)
	assert.False(t, one.Protocols.HTTP2() || one.Protocols.UnencryptedHTTP2())
}

// TestMutationsResumeTLS holds that the connection of a command costs no whole handshake
// where there was one before.
func TestMutationsResumeTLS(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "true")
	}))
	defer server.Close()
	pooled := transport.New(256)
	pooled.TLSClientConfig.RootCAs = server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	fresh := transport.NewFresh(pooled, parsed(t, server.URL), transport.Options{})
	defer fresh.Close()
	hc := &http.Client{Transport: fresh}
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
