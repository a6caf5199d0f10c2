package transport_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/internal/neterr"
	"github.com/lendingapi/lending-go/internal/transport"
)

// service tells of its connections, and fails the test if one has two requests.
type service struct {
	*httptest.Server

	connected chan net.Conn
}

// requests is the key of the count of requests on a connection.
type requests struct{}

func serve(t *testing.T, secure bool) *service {
	t.Helper()
	s := &service{connected: make(chan net.Conn, 1000)}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.EqualValues(t, 1, r.Context().Value(requests{}).(*atomic.Int32).Add(1), "requests on a connection")
		_, _ = io.WriteString(w, "true")
	}))
	s.Config.ConnState = func(c net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.connected <- c
		}
	}
	s.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		return context.WithValue(ctx, requests{}, new(atomic.Int32))
	}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	if secure {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

// fresh returns a transport for the service with at most conns connections.
func (s *service) fresh(t *testing.T, conns int, spares bool) *transport.Fresh {
	t.Helper()
	like := transport.New(conns)
	if s.TLS != nil {
		like.TLSClientConfig.RootCAs = s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	}
	fresh := transport.NewFresh(like, parsed(t, s.URL), transport.Options{Spares: spares})
	t.Cleanup(fresh.Close)
	return fresh
}

func parsed(t *testing.T, address string) *url.URL {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	return u
}

// post makes a request, and reads the whole response.
func post(ctx context.Context, fresh *transport.Fresh, address string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader("{}"))
	if err != nil {
		return err
	}
	resp, err := fresh.RoundTrip(r)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return errors.Join(err, resp.Body.Close())
}

func schemes(t *testing.T, test func(t *testing.T, secure bool)) {
	t.Helper()
	t.Run("http", func(t *testing.T) { test(t, false) })
	t.Run("https", func(t *testing.T) { test(t, true) })
}

// TestSpareIsUsedByTheNextRequest holds that a request finds its connection open after another
// request, and that no connection has two requests.
func TestSpareIsUsedByTheNextRequest(t *testing.T) {
	schemes(t, func(t *testing.T, secure bool) {
		s := serve(t, secure)
		fresh := s.fresh(t, 256, true)
		require.NoError(t, post(t.Context(), fresh, s.URL))
		<-s.connected // for the request
		<-s.connected // for the next
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			ConnectStart: func(string, string) { t.Error("a second connection") },
		})
		require.NoError(t, post(ctx, fresh, s.URL))
	})
}

// TestDeadSpareIsNotUsed holds that a request never meets a spare connection that the service
// has closed or on which it has sent something.
func TestDeadSpareIsNotUsed(t *testing.T) {
	for _, test := range []struct {
		name string
		kill func(net.Conn)
	}{
		{"closed", func(c net.Conn) { _ = c.Close() }},
		{"reset", func(c net.Conn) {
			_ = c.(*net.TCPConn).SetLinger(0)
			_ = c.Close()
		}},
		{"a forged response", func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged")
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for range 20 {
				s := serve(t, false)
				fresh := s.fresh(t, 256, true)
				fresh.Replenish()
				test.kill(<-s.connected)
				require.NoError(t, post(t.Context(), fresh, s.URL))
			}
		})
	}
}

// piped returns a transport whose connections are pipes, and sends their other ends.
func piped(t *testing.T, conns int) (*transport.Fresh, chan net.Conn) {
	t.Helper()
	like, others := transport.New(conns), make(chan net.Conn, 100)
	like.DialContext = func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		others <- theirs
		return ours, nil
	}
	return transport.NewFresh(like, parsed(t, "http://127.0.0.1"), transport.Options{Spares: true}), others
}

// TestSpareEnds holds that a spare connection that nobody needs is closed after two seconds, or
// with the client, and that no other takes its place.
func TestSpareEnds(t *testing.T) {
	for _, test := range []struct {
		name  string
		close bool
		after time.Duration
	}{{"unused", false, 2 * time.Second}, {"closed", true, 0}} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fresh, others := piped(t, 256)
				start := time.Now()
				for range 3 {
					fresh.Replenish()
				}
				synctest.Wait()
				require.Len(t, others, 1, "a single connection for all")
				if test.close {
					fresh.Close()
				}
				_, err := (<-others).Read(make([]byte, 1))
				require.ErrorIs(t, err, io.EOF)
				assert.Equal(t, test.after, time.Since(start))
				if test.close {
					fresh.Replenish()
				}
				time.Sleep(time.Minute) //nolint:forbidigo // of the bubble
				assert.Empty(t, others)
			})
		})
	}
}

// TestSparesAreOff holds that the switch works.
func TestSparesAreOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		like := transport.New(256)
		like.DialContext = func(context.Context, string, string) (net.Conn, error) {
			t.Error("a connection")
			return nil, io.EOF
		}
		fresh := transport.NewFresh(like, parsed(t, "http://127.0.0.1"), transport.Options{})
		fresh.Replenish()
		synctest.Wait()
	})
}

// TestConnectionsAreBoundedWithSpares has many requests at once with few connections: spare,
// prepared and used connections are within the bound, and all requests end.
func TestConnectionsAreBoundedWithSpares(t *testing.T) {
	schemes(t, func(t *testing.T, secure bool) {
		for _, most := range []int32{1, 2, 5} {
			s := serve(t, secure)
			like := transport.New(int(most))
			if secure {
				like.TLSClientConfig.RootCAs = s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
			}
			var open atomic.Int32
			dial := like.DialContext
			like.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
				assert.LessOrEqual(t, open.Add(1), most)
				c, err := dial(ctx, network, address)
				if err != nil {
					open.Add(-1)
					return nil, err
				}
				return &countedConn{TCPConn: c.(*net.TCPConn), open: &open}, nil
			}
			before := runtime.NumGoroutine()
			fresh := transport.NewFresh(like, parsed(t, s.URL), transport.Options{Spares: true})
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					for range 5 {
						p := fresh.Prepare()
						connected := connecting(t.Context(), p)
						assert.NoError(t, post(t.Context(), fresh, s.URL), "a check while a connection is prepared")
						if assert.NoError(t, <-connected) {
							assert.NoError(t, post(p.For(t.Context()), fresh, s.URL))
						}
						p.Close()
					}
				})
			}
			all.Wait()
			fresh.Close()
			assert.Eventually(t, func() bool { return open.Load() == 0 }, time.Minute, time.Millisecond)
			s.Close()
			assert.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+1 }, time.Minute, time.Millisecond)
		}
	})
}

// countedConn is open until its first Close.
type countedConn struct {
	*net.TCPConn
	open *atomic.Int32
	once sync.Once
}

func (c *countedConn) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.TCPConn.Close()
}

// TestPreparedConnection holds that a prepared connection is that of its request, that it is
// replaced if it has died meanwhile, and that it is closed if there is no request.
func TestPreparedConnection(t *testing.T) {
	schemes(t, func(t *testing.T, secure bool) {
		s := serve(t, secure)
		fresh := s.fresh(t, 2, false)
		for _, test := range []struct {
			name            string
			early, late     bool // the service closes the connection
			unused          bool
			wantConnections int
		}{
			{"used", false, false, false, 1},
			{"closed while the log makes its check", true, false, false, 2},
			{"closed while the log saves", false, true, false, 2},
			{"not used", false, false, true, 1},
		} {
			for range 10 { // more than the bound
				p := fresh.Prepare()
				require.NoError(t, p.Connect(t.Context()), test.name)
				first := <-s.connected
				if test.early {
					cut(first)
					require.NoError(t, p.Connect(t.Context()), test.name)
				}
				if test.late {
					cut(first)
				}
				if !test.unused {
					require.NoError(t, post(p.For(t.Context()), fresh, s.URL), test.name)
				}
				p.Close()
				for range test.wantConnections - 1 {
					<-s.connected
				}
				require.Empty(t, s.connected, test.name)
			}
		}
	})
}

// cut closes the connection below TLS, and returns when the client's system knows.
func cut(c net.Conn) {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	_ = c.(*net.TCPConn).SetLinger(60)
	_ = c.Close()
}

// TestConnectionThatEndsBeforeTheFirstByte has the service close a connection that was open before
// its request, after net/http got it. The request takes a new connection. If there is none, the
// error proves that the request was not sent, and is that of the new connection.
func TestConnectionThatEndsBeforeTheFirstByte(t *testing.T) {
	schemes(t, func(t *testing.T, secure bool) {
		for _, isSpare := range []bool{true, false} {
			for _, isGone := range []bool{false, true} {
				t.Run(fmt.Sprintf("spare %t, service gone %t", isSpare, isGone), func(t *testing.T) {
					s := serve(t, secure)
					ctx, conns := t.Context(), 2 // the least for a prepared connection
					if isSpare {
						conns = 1 // so that there is no other spare
					}
					fresh := s.fresh(t, conns, isSpare)
					if isSpare {
						fresh.Replenish()
					} else {
						p := fresh.Prepare()
						defer p.Close()
						require.NoError(t, p.Connect(ctx))
						ctx = p.For(ctx)
					}
					waited := <-s.connected
					gotten := 0
					ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
						gotten++
						if isGone {
							_ = s.Listener.Close()
						}
						cut(waited)
					}})
					err := post(ctx, fresh, s.URL)
					assert.Equal(t, 1, gotten, "net/http knows of one connection")
					if !isGone {
						require.NoError(t, err)
						return
					}
					require.Error(t, err)
					assert.True(t, transport.NeverLeft(err), err)
					text, _ := neterr.Describe(err)
					assert.Contains(t, text, "cannot connect to 127.0.0.1:")
				})
			}
		}
	})
}

// TestPreparedConnectionHasADeadline holds that the connection of another time writes nothing
// after the deadline of its request.
func TestPreparedConnectionHasADeadline(t *testing.T) {
	t.Parallel()
	schemes(t, func(t *testing.T, secure bool) {
		t.Parallel()
		for _, kind := range []string{"prepared", "spare"} {
			s := serve(t, secure)
			fresh := s.fresh(t, 256, true)
			at := time.Now().Add(300 * time.Millisecond)
			ctx, deadline := transport.WithDeadline(lateTimer{t.Context(), at})
			if kind == "spare" {
				fresh.Replenish()
			} else {
				p := fresh.Prepare()
				t.Cleanup(p.Close)
				require.NoError(t, p.Connect(t.Context()))
				ctx = p.For(ctx)
			}
			<-s.connected
			ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
				deadline.Got()
				<-time.After(time.Until(at) + time.Millisecond)
			}})
			require.Error(t, post(ctx, fresh, s.URL), kind)
			assert.True(t, deadline.NeverLeft(), kind)
		}
	})
}

// TestFailedConnectionTells holds the errors of connections that were not made, which are those
// of net/http.
func TestFailedConnectionTells(t *testing.T) {
	hang := func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }
	cut := func(c net.Conn) { _, _ = c.Read(make([]byte, 16<<10)) }
	plain := func(c net.Conn) {
		_, _ = bufio.NewReader(c).ReadByte()
		_, _ = io.WriteString(c, "HTTP/1.0 400 Bad Request\r\n\r\n")
	}
	for _, test := range []struct {
		name   string
		handle func(net.Conn)
		want   string
	}{
		{"nobody listens", nil, "cannot connect to 127.0.0.1:"},
		{"no TLS", plain, "the server does not speak TLS"},
		{"no certificate that is known", func(c net.Conn) {
			s := httptest.NewUnstartedServer(nil)
			s.StartTLS()
			defer s.Close()
			_ = tls.Server(c, s.TLS).Handshake()
			_, _ = c.Read(make([]byte, 1))
		}, "TLS certificate not accepted"},
		{"the handshake hangs", hang, "timeout"},
		{"the handshake is cut", cut, "connection closed before the answer was complete"},
	} {
		t.Run(test.name, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			defer listener.Close()
			if test.handle == nil {
				_ = listener.Close()
			}
			go func() {
				for {
					c, err := listener.Accept()
					if err != nil {
						return
					}
					go func() {
						defer c.Close()
						test.handle(c)
					}()
				}
			}()
			like := transport.New(256)
			like.TLSHandshakeTimeout = 100 * time.Millisecond
			if test.want != "timeout" {
				like.TLSHandshakeTimeout = time.Minute
			}
			address := "https://" + listener.Addr().String()
			fresh := transport.NewFresh(like, parsed(t, address), transport.Options{Spares: true})
			defer fresh.Close()
			standard := like.Clone()
			p := fresh.Prepare()
			defer p.Close()
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
			require.NoError(t, err)
			_, want := standard.RoundTrip(r) //nolint:bodyclose // an error
			for _, err := range []error{p.Connect(t.Context()), post(t.Context(), fresh, address), want} {
				require.Error(t, err)
				text, known := neterr.Describe(err)
				assert.True(t, known)
				assert.Contains(t, text, test.want)
				assert.Equal(t, neterr.NeverLeft(want), neterr.NeverLeft(err))
				assert.Equal(t, neterr.IsTimeout(want), neterr.IsTimeout(err))
				assert.Equal(t, neterr.IsPermanent(want), neterr.IsPermanent(err))
			}
		})
	}
}

// TestPreparedConnectionIsReplacedBeforeTheRequest has the service go away after a connection was
// prepared: the caller learns that before the request counts as sent.
func TestPreparedConnectionIsReplacedBeforeTheRequest(t *testing.T) {
	s := serve(t, false)
	fresh := s.fresh(t, 256, false)
	p := fresh.Prepare()
	defer p.Close()
	require.NoError(t, p.Connect(t.Context()))
	require.NoError(t, p.Connect(t.Context()), "the same connection")
	cut(<-s.connected)
	s.Close()
	require.Error(t, p.Connect(t.Context()))
}

// connecting connects p in a goroutine.
func connecting(ctx context.Context, p *transport.Prepared) <-chan error {
	done := make(chan error, 1)
	go func() { done <- p.Connect(ctx) }()
	return done
}

// TestPreparationIsCanceled has the context of a call end while its connection is dialed, in the
// handshake, or waited for.
func TestPreparationIsCanceled(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	before := runtime.NumGoroutine()
	base := parsed(t, "https://"+listener.Addr().String())
	fresh := transport.NewFresh(transport.New(2), base, transport.Options{Spares: true})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first, second := fresh.Prepare(), fresh.Prepare()
	firstEnds, secondEnds := connecting(ctx, first), connecting(ctx, second)
	c, err := listener.Accept()
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Read(make([]byte, 1)) // a handshake
	require.NoError(t, err)
	cancel()
	require.ErrorIs(t, <-firstEnds, context.Canceled)
	require.ErrorIs(t, <-secondEnds, context.Canceled)
	first.Close()
	second.Close()
	require.ErrorIs(t, post(ctx, fresh, "https://"+listener.Addr().String()), context.Canceled)
	assert.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+1 }, time.Minute, time.Millisecond)
}

// TestProxyMakesItsOwnConnections holds that nothing connects ahead where a proxy is between.
func TestProxyMakesItsOwnConnections(t *testing.T) {
	var through atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		through.Add(1)
		_, _ = io.WriteString(w, "true")
	}))
	defer proxy.Close()
	like := transport.New(256)
	like.Proxy = http.ProxyURL(parsed(t, proxy.URL))
	dial := like.DialContext
	var dialed atomic.Int32
	like.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		dialed.Add(1)
		return dial(ctx, network, address)
	}
	fresh := transport.NewFresh(like, parsed(t, "http://service.example"), transport.Options{Spares: true})
	defer fresh.Close()
	p := fresh.Prepare()
	defer p.Close()
	require.NoError(t, p.Connect(t.Context()))
	require.Zero(t, dialed.Load())
	for range 3 {
		require.NoError(t, post(p.For(t.Context()), fresh, "http://service.example"))
	}
	assert.EqualValues(t, 3, through.Load())
	assert.EqualValues(t, 3, dialed.Load())
}

// TestRequestThatCannotBeSentTakesNoConnection holds that the connection of a request that
// net/http refuses is closed.
func TestRequestThatCannotBeSentTakesNoConnection(t *testing.T) {
	s := serve(t, false)
	fresh := s.fresh(t, 1, false)
	for range 3 {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, strings.NewReader("{}"))
		require.NoError(t, err)
		r.Header = http.Header{"A": {"\n"}}
		_, err = fresh.RoundTrip(r) //nolint:bodyclose // an error
		require.Error(t, err)
	}
	require.NoError(t, post(t.Context(), fresh, s.URL))
}
