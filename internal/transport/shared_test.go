package transport_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/internal/transport"
)

// A connection of HTTP/2 carries fewer than the 1,000 requests after which nginx ends it. The requests of the former
// connection go on, and CloseIdleConnections ends every connection.
func TestConnectionEndsBeforeTheGatewayEndsIt(t *testing.T) {
	t.Parallel()
	s := serve(t, true)
	var open atomic.Int32
	dial := s.like.DialContext
	s.like.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		open.Add(1)
		return closing{conn, func() { open.Add(-1) }}, err
	}
	fresh := transport.NewFresh(s.like, true)
	send := func(path string) string {
		text, _, err := post(new(transport.Send).Start(t.Context()), fresh, s.URL+path, false)
		assert.NoError(t, err)
		return text
	}
	requests := map[string]int{send(""): 1}
	var waiting sync.WaitGroup
	waiting.Go(func() { send("/wait") })
	<-s.waiting
	fresh.CloseIdleConnections()
	for n := range 2500 {
		if requests[send("")]++; n == 1000 {
			close(s.goOn)
			waiting.Wait()
		}
	}
	assert.Len(t, requests, 3)
	for connection, n := range requests {
		assert.LessOrEqual(t, n, 900, connection)
	}
	assert.Eventually(t, func() bool {
		fresh.CloseIdleConnections()
		return open.Load() == 0
	}, 5*time.Second, time.Millisecond)
}

// TestRefusalsShortenConnections counts the requests of a connection after refusals. They count for an hour.
func TestRefusalsShortenConnections(t *testing.T) {
	for _, test := range []struct {
		name    string
		refused []int32
		later   time.Duration
		want    int32
	}{
		{"none", nil, 0, 900},
		{"many at once", []int32{120, 103, 101, 140}, 0, 90},
		{"at once, as of a service that restarts", []int32{1}, 0, 50},
		{"after more than the client sends", []int32{1100}, 0, 900},
		{"within the hour", []int32{101}, time.Hour, 90},
		{"before an hour", []int32{101}, time.Hour + 1, 900},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fresh := transport.NewFresh(transport.New(nil), true)
				for _, n := range test.refused {
					fresh.Learn(n)
				}
				<-time.After(test.later)
				assert.Equal(t, test.want, fresh.Most())
			})
		})
	}
}

// TestBurstStaysWithinThePlaces has a service take few requests at once on a connection. None of a burst is refused,
// not even on new connections, and the burst is at the service as a whole.
func TestBurstStaysWithinThePlaces(t *testing.T) {
	t.Parallel()
	for _, places := range []int{1, 3, 10, 100, 250} {
		t.Run(fmt.Sprint(places), func(t *testing.T) {
			t.Parallel()
			const burst = 60
			s := serve(t, true, func(server *http.Server) {
				server.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: places}
			})
			fresh := transport.NewFresh(s.like, true)
			defer fresh.CloseIdleConnections()
			for range 3 {
				errs := make(chan error, burst)
				for range burst {
					go func() {
						_, _, err := post(new(transport.Send).Start(t.Context()), fresh, s.URL+"/wait", false)
						errs <- err
					}()
				}
				for range burst {
					select {
					case <-s.waiting:
					case err := <-errs:
						require.NoError(t, err)
					}
				}
				for range burst {
					s.goOn <- struct{}{}
				}
				for range burst {
					require.NoError(t, <-errs)
				}
			}
		})
	}
}

// closing is a connection that tells of its end.
type closing struct {
	net.Conn
	closed func()
}

func (c closing) Close() error {
	c.closed()
	return c.Conn.Close()
}

// The frames of a service that takes no request.
var (
	emptySettings = []byte{0, 0, 0, 4, 0, 0, 0, 0, 0}
	goAway        = []byte{0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
)

// listen has handle serve connections of HTTP/2, and returns the address.
func (s *service) listen(t *testing.T, handle func(net.Conn)) string {
	t.Helper()
	return "https://" + wire.ListenRaw(t, func(conn net.Conn) { handle(tls.Server(conn, s.TLS)) })
}

// TestServiceThatTakesNoRequest ends each request. A request dials again only while others take what it waited for.
func TestServiceThatTakesNoRequest(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		frames []byte
		closes bool
	}{
		{"closes", nil, true},
		{"closes after its settings", emptySettings, true},
		{"no HTTP/2", []byte("HTTP/1.1 400 Bad Request\r\n\r\n"), true},
		{"GOAWAY", slices.Concat(emptySettings, goAway), false},
		{"no places", []byte{0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			const requests = 3
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			var connections atomic.Int32
			s := serve(t, true)
			address := s.listen(t, func(conn net.Conn) {
				connections.Add(1)
				_, _ = conn.Write(test.frames)
				if !test.closes {
					context.AfterFunc(ctx, func() { _ = conn.Close() })
					_, _ = io.Copy(io.Discard, conn)
				}
			})
			fresh := transport.NewFresh(s.like, true)
			errs := make(chan error, requests)
			for range requests {
				go func() {
					_, _, err := post(new(transport.Send).Start(ctx), fresh, address, false)
					errs <- err
				}()
			}
			for range requests {
				require.Error(t, <-errs)
			}
			assert.LessOrEqual(t, connections.Load(), int32(2*requests))
			fresh.CloseIdleConnections()
		})
	}
}

// Requests wait for the same connection. One whose context ends does not end the connection of the others, and an
// error of the connection is the error of all.
func TestRequestsWaitForOneConnection(t *testing.T) {
	t.Parallel()
	for _, failed := range []error{nil, errors.New("no route")} {
		t.Run(fmt.Sprint(failed), func(t *testing.T) {
			t.Parallel()
			s := serve(t, true)
			dials, goOn, dial := make(chan struct{}, 10), make(chan struct{}), s.like.DialContext
			s.like.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
				dials <- struct{}{}
				if <-goOn; failed != nil {
					return nil, failed
				}
				return dial(ctx, network, address)
			}
			fresh := transport.NewFresh(s.like, true)
			defer fresh.CloseIdleConnections()
			send := func(ctx context.Context) <-chan error {
				err := make(chan error, 1)
				go func() {
					_, _, failed := post(new(transport.Send).Start(ctx), fresh, s.URL, false)
					err <- failed
				}()
				return err
			}
			ctx, cancel := context.WithCancel(t.Context())
			first := send(ctx)
			<-dials
			second := send(t.Context())
			cancel()
			require.ErrorIs(t, <-first, context.Canceled)
			close(goOn)
			require.ErrorIs(t, <-second, failed)
			if failed == nil {
				assert.Empty(t, dials)
			}
		})
	}
}

// Behind a load balancer an instance may be dead: a request has another dial after 2 s.
func TestSlowDialHasCompany(t *testing.T) {
	t.Parallel()
	s := serve(t, true)
	var dials atomic.Int32
	dial := s.like.DialContext
	s.like.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if dials.Add(1) == 1 {
			<-t.Context().Done()
		}
		return dial(ctx, network, address)
	}
	fresh := transport.NewFresh(s.like, true)
	defer fresh.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for range 2 {
		_, _, err := post(new(transport.Send).Start(ctx), fresh, s.URL, false)
		require.NoError(t, err)
	}
	assert.EqualValues(t, 2, dials.Load())
}

// A proxy may answer no dial: the requests without a deadline end too.
func TestDialEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		like := transport.New(nil)
		like.Proxy = nil
		like.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		start, fresh := time.Now(), transport.NewFresh(like, true)
		_, _, err := post(new(transport.Send).Start(t.Context()), fresh, "https://lending.example", false)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 30*time.Second, time.Since(start))
		<-time.After(30 * time.Second) // the other dials end too
	})
}

// A connection ends without a request too, though the request and the client ended during the dial.
func TestConnectionWithoutRequestEnds(t *testing.T) {
	t.Parallel()
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, http2)
			dialing, goOn, closed, dial := make(chan struct{}), make(chan struct{}), make(chan struct{}), s.like.DialContext
			s.like.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
				close(dialing)
				<-goOn
				conn, err := dial(ctx, network, address)
				return closing{conn, sync.OnceFunc(func() { close(closed) })}, err
			}
			fresh := transport.NewFresh(s.like, true)
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-dialing
				cancel()
			}()
			_, _, err := post(new(transport.Send).Start(ctx), fresh, s.URL, false)
			require.ErrorIs(t, err, context.Canceled)
			fresh.CloseIdleConnections()
			close(goOn)
			ends(t, closed)
		})
	}
}

func ends(t *testing.T, closed <-chan struct{}) {
	t.Helper()
	select {
	case <-closed:
	case <-time.After(20 * time.Second):
		t.Error("the connection is open")
	}
}

// The first of two dials ends after the close.
func TestLateDialEnds(t *testing.T) {
	t.Parallel()
	s := serve(t, true)
	dials, goOn, closed, dial := atomic.Int32{}, make(chan struct{}), make(chan struct{}), s.like.DialContext
	s.like.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		isFirst := dials.Add(1) == 1
		if isFirst {
			<-goOn
		}
		conn, err := dial(ctx, network, address)
		if isFirst {
			conn = closing{conn, sync.OnceFunc(func() { close(closed) })}
		}
		return conn, err
	}
	fresh := transport.NewFresh(s.like, true)
	_, _, err := post(new(transport.Send).Start(t.Context()), fresh, s.URL, false)
	require.NoError(t, err)
	fresh.CloseIdleConnections()
	close(goOn)
	ends(t, closed)
}

// A service that ends its connections with a GOAWAY, and does not close them.
func TestUnusableConnectionEnds(t *testing.T) {
	t.Parallel()
	s := serve(t, true)
	const requests = 50
	ended := make(chan struct{}, 2*requests) // a request that misses the end of its dial has another
	address := s.listen(t, func(conn net.Conn) {
		_, _ = conn.Write(slices.Concat(emptySettings, goAway))
		_, _ = io.Copy(io.Discard, conn)
		ended <- struct{}{}
	})
	fresh := transport.NewFresh(s.like, true)
	defer fresh.CloseIdleConnections()
	for range requests {
		_, _, err := post(new(transport.Send).Start(t.Context()), fresh, address, false)
		require.Error(t, err)
	}
	lost := time.After(6 * time.Second) // net/http notices that no PING is answered
	for range requests {
		select {
		case <-ended:
		case <-lost:
			t.Fatal("a connection is open")
		}
	}
}

// A place that becomes free goes to a request that waits, while another connection cannot be had.
func TestFreedPlaceIsTaken(t *testing.T) {
	t.Parallel()
	const places = 3
	s := serve(t, true, func(server *http.Server) { server.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: places} })
	dials, dial := atomic.Int32{}, s.like.DialContext
	s.like.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if dials.Add(1) > 1 {
			<-t.Context().Done()
		}
		return dial(ctx, network, address)
	}
	fresh := transport.NewFresh(s.like, true)
	defer fresh.CloseIdleConnections()
	_, _, err := post(t.Context(), fresh, s.URL, false)
	require.NoError(t, err)
	errs := make(chan error)
	for range 4 * places {
		go func() {
			_, _, err := post(new(transport.Send).Start(t.Context()), fresh, s.URL+"/wait", false)
			errs <- err
		}()
	}
	for range 4 {
		for range places {
			<-s.waiting
		}
		for range places {
			s.goOn <- struct{}{}
			require.NoError(t, <-errs)
		}
	}
}

// A panic in a hook of the request frees its place.
func TestPanicInHookFreesThePlace(t *testing.T) {
	t.Parallel()
	s := serve(t, true, func(server *http.Server) { server.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 1} })
	fresh := transport.NewFresh(s.like, true)
	defer fresh.CloseIdleConnections()
	for _, hook := range []func(httptrace.GotConnInfo){nil, func(httptrace.GotConnInfo) { panic("hook") }, nil} {
		send := func() {
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: hook})
			got, _, err := post(ctx, fresh, s.URL, false)
			require.NoError(t, err)
			assert.Equal(t, "HTTP/2.0 1", got)
		}
		if hook == nil {
			send()
		} else {
			assert.PanicsWithValue(t, "hook", send)
		}
	}
}

// A service changes to HTTP/1.1, and back.
func TestServiceChangesItsProtocol(t *testing.T) {
	t.Parallel()
	s := serve(t, true)
	var old atomic.Bool
	with := s.TLS.Clone()
	s.TLS.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		c := with.Clone()
		if old.Load() {
			c.NextProtos = []string{"http/1.1"}
		}
		return c, nil
	}
	fresh := transport.NewFresh(s.like, true)
	defer fresh.CloseIdleConnections()
	for _, want := range []string{"HTTP/2.0 1", "HTTP/1.1 2", "HTTP/1.1 3", "HTTP/2.0 4", "HTTP/2.0 5", "HTTP/2.0 5"} {
		if is := want[5] == '1'; !old.Swap(is) && is {
			fresh.CloseIdleConnections()
		}
		got, _, err := post(new(transport.Send).Start(t.Context()), fresh, s.URL, false)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
}

// Each host is dialed under the name that DNS has.
func TestHostIsDialed(t *testing.T) {
	for _, test := range []struct{ url, want string }{
		{"https://lending.example", "lending.example:443"},
		{"https://[::1]:8443", "[::1]:8443"},
		{"https://b\u00fccher.example", "xn--bcher-kva.example:443"},
	} {
		t.Run(test.want, func(t *testing.T) {
			var dialed string
			like, gone := transport.New(nil), errors.New("gone")
			like.Proxy = nil
			like.DialContext = func(_ context.Context, _, address string) (net.Conn, error) {
				dialed = address
				return nil, gone
			}
			_, _, err := post(t.Context(), transport.NewFresh(like, true), test.url, false)
			require.ErrorIs(t, err, gone)
			assert.Equal(t, test.want, dialed)
		})
	}
}
