package transport_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/internal/transport"
)

// multiplexed is a service with HTTP/2 that tells of its connections.
type multiplexed struct {
	*httptest.Server

	connected chan net.Conn
	arrivals  atomic.Int32
	first     *deaf // the client's first connection
}

// deaf is a connection of the client whose input a test can hold back.
type deaf struct {
	*net.TCPConn

	holds atomic.Bool
	goOn  chan struct{}
}

func (c *deaf) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	if c.holds.Load() {
		<-c.goOn
	}
	return n, err
}

func serveHTTP2(t *testing.T) *multiplexed {
	t.Helper()
	s := &multiplexed{connected: make(chan net.Conn, 1000)}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.arrivals.Add(1)
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		_, _ = fmt.Fprint(w, r.Proto, string(body))
	}))
	s.EnableHTTP2, s.Config.ErrorLog = true, log.New(io.Discard, "", 0)
	s.Config.ConnState = func(c net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.connected <- c
		}
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// fresh returns a transport for the service with at most conns connections.
func (s *multiplexed) fresh(t *testing.T, conns int) *transport.Fresh {
	t.Helper()
	like := transport.New(conns)
	like.TLSClientConfig.RootCAs = s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	dial := like.DialContext
	like.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil || s.first != nil {
			return conn, err
		}
		s.first = &deaf{TCPConn: conn.(*net.TCPConn), goOn: make(chan struct{})}
		return s.first, nil
	}
	fresh := transport.NewFresh(like, parsed(t, s.URL), transport.Options{HTTP2: true})
	t.Cleanup(fresh.Close)
	return fresh
}

// send makes a request and returns the response.
func (s *multiplexed) send(
	ctx context.Context, fresh *transport.Fresh, body io.ReadCloser, length int64,
) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, nil)
	if err != nil {
		return "", err
	}
	r.Body, r.ContentLength = body, length
	resp, err := fresh.RoundTrip(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

// mutate makes a request that can share a connection.
func (s *multiplexed) mutate(ctx context.Context, fresh *transport.Fresh) (string, error) {
	return s.send(ctx, fresh, transport.NewBody([]byte("{}")), 2)
}

// traced calls gotConn for every connection of a request.
func traced(ctx context.Context, gotConn func(httptrace.GotConnInfo)) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: gotConn})
}

// TestRequestsShareAConnection makes requests one after another, and then many at a time.
func TestRequestsShareAConnection(t *testing.T) {
	s := serveHTTP2(t)
	fresh := s.fresh(t, 256)
	assert.False(t, fresh.SpeaksHTTP2())
	for i := range 200 { // a connection has 90 requests: some proxies close it after 100
		ctx := traced(t.Context(), func(got httptrace.GotConnInfo) { assert.Equal(t, i%90 > 0, got.Reused) })
		got, err := s.mutate(ctx, fresh)
		require.NoError(t, err)
		require.Equal(t, "HTTP/2.0{}", got)
	}
	assert.True(t, fresh.SpeaksHTTP2())
	var all sync.WaitGroup
	for range 70 {
		all.Go(func() {
			got, err := s.mutate(t.Context(), fresh)
			assert.NoError(t, err)
			assert.Equal(t, "HTTP/2.0{}", got)
		})
	}
	all.Wait()
	assert.Len(t, s.connected, 3, "unless the machine stands still for seconds")
}

// TestBodyDecidesTheProtocol holds that a body that is large, or not in memory, has a connection of
// its own: small requests need not wait for it.
func TestBodyDecidesTheProtocol(t *testing.T) {
	const limit = 32 << 10
	text := func(n int) string { return strings.Repeat("x", n) }
	for _, test := range []struct {
		name   string
		body   io.ReadCloser
		length int64
		want   string
	}{
		{"none", nil, 0, "HTTP/2.0"},
		{"empty, as that of a GET", io.NopCloser(strings.NewReader("")), 0, "HTTP/2.0"},
		{"small", transport.NewBody([]byte(text(limit))), limit, "HTTP/2.0" + text(limit)},
		{"large", transport.NewBody([]byte(text(limit + 1))), limit + 1, "HTTP/1.1" + text(limit+1)},
		{"streamed", io.NopCloser(strings.NewReader("x")), 1, "HTTP/1.1x"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := serveHTTP2(t)
			got, err := s.send(t.Context(), s.fresh(t, 256), test.body, test.length)
			require.NoError(t, err)
			assert.Equal(t, test.want, got)
		})
	}
}

// closeBelow ends the output of the connection below TLS. A request would still arrive.
func closeBelow(c net.Conn) { _ = c.(*tls.Conn).NetConn().(*net.TCPConn).CloseWrite() }

// TestProgramWithoutHTTP2 switches HTTP/2 off as operators do.
func TestProgramWithoutHTTP2(t *testing.T) {
	t.Setenv("GODEBUG", "http2client=0")
	s := serveHTTP2(t)
	fresh := s.fresh(t, 1)
	for range 3 {
		prepared := fresh.Prepare()
		require.NoError(t, prepared.Connect(t.Context()))
		prepared.Close()
		got, err := s.mutate(t.Context(), fresh)
		require.NoError(t, err)
		assert.Equal(t, "HTTP/1.1{}", got)
	}
	assert.False(t, fresh.SpeaksHTTP2())
}

// TestClosedConnectionIsNotShared has the service close the idle connection before the next
// request, or just before its first byte. net/http does not learn of it, but the request travels on
// another connection.
func TestClosedConnectionIsNotShared(t *testing.T) {
	for _, test := range []struct {
		name          string
		before, after bool // the choice of the connection
		conns         int
	}{{"before", true, false, 1}, {"after", false, true, 2}} {
		t.Run(test.name, func(t *testing.T) {
			s := serveHTTP2(t)
			fresh := s.fresh(t, 256)
			_, err := s.mutate(t.Context(), fresh)
			require.NoError(t, err)
			first, conns, heads := <-s.connected, 0, 0
			s.first.holds.Store(true)
			defer close(s.first.goOn)
			if test.before {
				closeBelow(first)
			}
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
				GotConn: func(httptrace.GotConnInfo) {
					if conns++; conns == 1 && test.after {
						closeBelow(first)
					}
				},
				WroteHeaders: func() { heads++ },
			})
			_, err = s.mutate(ctx, fresh)
			require.NoError(t, err)
			assert.EqualValues(t, 2, s.arrivals.Load())
			assert.Equal(t, test.conns, conns, "the trace learns of each connection")
			assert.Equal(t, 1, heads, "and of no head that was not written")
		})
	}
}

// TestServiceGoneBeforeTheRequestWasNotReached closes the service after the choice of a connection.
func TestServiceGoneBeforeTheRequestWasNotReached(t *testing.T) {
	s := serveHTTP2(t)
	fresh := s.fresh(t, 256)
	_, err := s.mutate(t.Context(), fresh)
	require.NoError(t, err)
	_, err = s.mutate(traced(t.Context(), func(httptrace.GotConnInfo) {
		_ = s.Listener.Close()
		closeBelow(<-s.connected)
	}), fresh)
	require.Error(t, err)
	assert.True(t, transport.NeverLeft(err), err)
	assert.EqualValues(t, 1, s.arrivals.Load())
}

// TestSharedConnectionMakesRoom holds that an idle connection does not keep others away, and that
// the end of the client closes it.
func TestSharedConnectionMakesRoom(t *testing.T) {
	s := serveHTTP2(t)
	fresh := s.fresh(t, 1)
	_, err := s.mutate(t.Context(), fresh)
	require.NoError(t, err)
	got, err := s.send(t.Context(), fresh, io.NopCloser(strings.NewReader("x")), 1)
	require.NoError(t, err)
	assert.Equal(t, "HTTP/1.1x", got)
	_, err = s.mutate(t.Context(), fresh)
	require.NoError(t, err)
	fresh.Close()
	s.Close() // waits until the client has closed its connections
}

// TestConnectionOfARequestIsNotIdle ends the client when a request has chosen its connection.
func TestConnectionOfARequestIsNotIdle(t *testing.T) {
	s := serveHTTP2(t)
	fresh, conns := s.fresh(t, 256), 0
	for range 2 {
		_, err := s.mutate(traced(t.Context(), func(httptrace.GotConnInfo) {
			conns++
			fresh.Close()
		}), fresh)
		require.NoError(t, err)
	}
	assert.Equal(t, 2, conns, "one for each request")
}

// TestConnectionBesideACheckIsShared prepares a connection for a request while another one has it.
func TestConnectionBesideACheckIsShared(t *testing.T) {
	s := serveHTTP2(t)
	fresh := s.fresh(t, 2) // one prepared at a time
	for range 3 {
		prepared := fresh.Prepare()
		require.NoError(t, prepared.Connect(t.Context()))
		_, err := s.mutate(t.Context(), fresh) // as the check
		require.NoError(t, err)
		_, err = s.mutate(prepared.For(t.Context()), fresh)
		require.NoError(t, err)
		prepared.Close()
	}
	assert.Len(t, s.connected, 1, "unless the machine stands still for seconds")
}

// TestSharedConnectionEnds lets time pass after a request, in a bubble: the service is the other
// end of a pipe.
func TestSharedConnectionEnds(t *testing.T) {
	secure := httptest.NewUnstartedServer(nil)
	secure.EnableHTTP2 = true
	secure.StartTLS()
	defer secure.Close()
	for _, test := range []struct {
		name  string
		after time.Duration
		conns int
	}{{"soon", time.Second, 1}, {"late", 3 * time.Second, 2}} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				like, conns := transport.New(256), 0
				like.Proxy, like.TLSClientConfig.RootCAs = nil, secure.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
				pipes := &pipeListener{make(chan net.Conn)}
				like.DialContext = func(context.Context, string, string) (net.Conn, error) {
					conns++
					ours, theirs := net.Pipe()
					pipes.conns <- theirs
					return ours, nil
				}
				server := &http.Server{Handler: http.NotFoundHandler(), TLSConfig: secure.TLS.Clone()}
				go func() { _ = server.ServeTLS(pipes, "", "") }()
				defer server.Close()
				fresh := transport.NewFresh(like, parsed(t, "https://example.com"), transport.Options{HTTP2: true})
				defer fresh.Close()
				for range 2 {
					s := &multiplexed{Server: &httptest.Server{URL: "https://example.com"}}
					_, err := s.mutate(t.Context(), fresh)
					require.NoError(t, err)
					<-time.After(test.after)
				}
				assert.Equal(t, test.conns, conns)
			})
		})
	}
}

// pipeListener is a listener of one end of pipes.
type pipeListener struct{ conns chan net.Conn }

func (l *pipeListener) Accept() (net.Conn, error) {
	conn, ok := <-l.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (l *pipeListener) Close() error {
	close(l.conns)
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// TestConnectionThatEndsAtOnceIsAnError has the service reset each connection after the handshake.
func TestConnectionThatEndsAtOnceIsAnError(t *testing.T) {
	s := serveHTTP2(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			secure := tls.Server(conn, s.TLS)
			_ = secure.Handshake()
			_ = conn.(*net.TCPConn).SetLinger(0)
			_ = conn.Close()
		}
	}()
	s.URL = "https://" + listener.Addr().String()
	fresh := s.fresh(t, 2)
	for range 50 {
		_, err := s.mutate(t.Context(), fresh)
		require.Error(t, err)
	}
	assert.Zero(t, s.arrivals.Load())
}
