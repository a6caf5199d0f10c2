package transport_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/internal/test/leak"
	"github.com/lendingapi/lending-go/internal/transport"
)

func TestMain(m *testing.M) { leak.Main(m) }

// No stage of a connection lasts for ever, in a bubble: the service is the other end of a pipe.
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
				one := transport.New(nil)
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
	one := transport.New(nil)
	assert.NotZero(t, one.ExpectContinueTimeout)
	assert.NotZero(t, one.MaxResponseHeaderBytes)
	assert.False(t, one.DisableKeepAlives)
}

// service is a service over TLS whose responses name the protocol and the connection of the request.
type service struct {
	*httptest.Server
	like    *http.Transport
	arrived atomic.Int32
	waiting chan struct{} // an element for each request of /wait
	goOn    chan struct{} // closed: /wait is answered
}

func serve(t *testing.T, http2 bool, set ...func(*http.Server)) *service {
	t.Helper()
	s := &service{waiting: make(chan struct{}, 100), goOn: make(chan struct{})}
	var mu sync.Mutex
	connections := map[string]int{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			s.waiting <- struct{}{}
			<-s.goOn
			return
		}
		s.arrived.Add(1)
		mu.Lock()
		defer mu.Unlock()
		if connections[r.RemoteAddr] == 0 {
			connections[r.RemoteAddr] = len(connections) + 1
		}
		_, _ = fmt.Fprintf(w, "%s %d", r.Proto, connections[r.RemoteAddr])
	}))
	s.EnableHTTP2 = http2
	for _, f := range set {
		f(s.Config)
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	s.like = transport.New(nil)
	s.like.TLSClientConfig.RootCAs = s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	return s
}

// post returns the text of the response, and whether the connection resumed TLS.
func post(ctx context.Context, through http.RoundTripper, address string, alone bool) (string, bool, error) {
	if send, ok := ctx.(*transport.Send); ok {
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			GotConn:          func(got httptrace.GotConnInfo) { send.Got(got.Conn) },
			WroteHeaderField: func(string, []string) { send.Begin() },
			WroteRequest:     func(httptrace.WroteRequestInfo) { send.Wrote() },
		})
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader("{}"))
	if err != nil {
		return "", false, err
	}
	r.Close = alone
	resp, err := through.RoundTrip(r)
	if err != nil {
		return "", false, err
	}
	text, err := io.ReadAll(resp.Body)
	return string(text), resp.TLS.DidResume, errors.Join(err, resp.Body.Close())
}

// TestRequestsShareOnlyHTTP2 counts the connections of a service. Each request over HTTP/1.1 has a
// connection of its own, and so has a request with Close.
func TestRequestsShareOnlyHTTP2(t *testing.T) {
	apart := []string{"HTTP/1.1 1", "HTTP/1.1 2", "HTTP/1.1 3", "HTTP/1.1 4"}
	for _, test := range []struct {
		name         string
		offers, asks bool
		want         []string
	}{
		{"both", true, true, []string{"HTTP/2.0 1", "HTTP/2.0 1", "HTTP/1.1 2", "HTTP/2.0 1"}},
		{"client without", true, false, apart},
		{"service without", false, true, apart},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := serve(t, test.offers)
			fresh := transport.NewFresh(s.like, test.asks)
			defer fresh.CloseIdleConnections()
			assert.False(t, fresh.SpeaksHTTP2())
			for i, want := range test.want {
				reused := false
				ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
					reused = got.Reused
				}})
				got, _, err := post(ctx, fresh, s.URL, i == 2)
				require.NoError(t, err)
				assert.Equal(t, want, got)
				assert.Equal(t, slices.Contains(test.want[:i], want), reused)
				assert.Equal(t, strings.HasPrefix(test.want[0], "HTTP/2"), fresh.SpeaksHTTP2())
			}
		})
	}
}

// The second connection of a mutation needs no whole handshake.
func TestMutationsResumeTLS(t *testing.T) {
	s := serve(t, false)
	fresh := transport.NewFresh(s.like, true)
	defer fresh.CloseIdleConnections()
	for _, resumes := range []bool{false, true, true} {
		_, resumed, err := post(t.Context(), fresh, s.URL, false)
		require.NoError(t, err)
		assert.Equal(t, resumes, resumed)
	}
}

// Connections through a proxy share, and are watched, as all others.
func TestRequestsGoThroughAProxy(t *testing.T) {
	s := serve(t, true)
	tunnels := 0
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tunnels++
		service, err := net.Dial("tcp", r.Host)
		if !assert.NoError(t, err) {
			return
		}
		w.WriteHeader(http.StatusOK)
		client, sent, err := w.(http.Hijacker).Hijack()
		if !assert.NoError(t, err) {
			return
		}
		go func() {
			_, _ = io.Copy(service, sent)
			_ = service.Close()
		}()
		_, _ = io.Copy(client, service)
		_ = client.Close()
	}))
	defer proxy.Close()
	s.like.Proxy = func(*http.Request) (*url.URL, error) { return url.Parse(proxy.URL) }
	fresh := transport.NewFresh(s.like, true)
	defer fresh.CloseIdleConnections()
	for range 3 {
		got, _, err := post(t.Context(), fresh, s.URL, false)
		require.NoError(t, err)
		assert.Equal(t, "HTTP/2.0 1", got)
	}
	assert.Equal(t, 1, tunnels)
}

// A connection of HTTP/2 on which nothing comes back ends, instead of holding up all mutations.
func TestSilentHTTP2ConnectionEnds(t *testing.T) {
	certified := httptest.NewTLSServer(nil)
	defer certified.Close()
	synctest.Test(t, func(t *testing.T) {
		like := transport.New(certified.Client().Transport.(*http.Transport).TLSClientConfig.Clone())
		like.DialContext = func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			server := tls.Server(theirs, &tls.Config{Certificates: certified.TLS.Certificates, NextProtos: []string{"h2"}})
			go func() { _, _ = io.Copy(io.Discard, server) }()
			return ours, nil
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, certified.URL, strings.NewReader("{}"))
		require.NoError(t, err)
		start := time.Now()
		_, err = transport.NewFresh(like, true).RoundTrip(request) //nolint:bodyclose // fails
		require.Error(t, err)
		assert.Equal(t, 7*time.Second, time.Since(start), "4 s of silence, and 3 s after a ping: %v", err)
	})
}
