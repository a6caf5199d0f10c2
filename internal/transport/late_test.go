package transport_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/internal/transport"
)

// slow is a service with HTTP/2 that makes room for one byte of a body at a time, and holds its
// responses back.
type slow struct {
	*httptest.Server

	fresh    *transport.Fresh
	conn     *heldWrite               // the client's first connection
	arrived  chan string              // the path of each request, before its body
	goOn     map[string]chan struct{} // closed: the service reads the body and responds
	complete chan string              // the path of each request with a whole body
}

// heldWrite is a connection of the client whose next write a test can hold back in the middle.
type heldWrite struct {
	*net.TCPConn

	hold     atomic.Bool
	begun    chan struct{} // closed in the middle of the write
	goOn     chan struct{} // closed: the write goes on
	isBroken atomic.Bool   // by a deadline
}

func (c *heldWrite) SetWriteDeadline(at time.Time) error {
	if !at.IsZero() && at.Before(time.Now()) {
		c.isBroken.Store(true)
	}
	return nil
}

func (c *heldWrite) Write(p []byte) (int, error) {
	if !c.hold.CompareAndSwap(true, false) {
		return c.TCPConn.Write(p)
	}
	half := len(p) / 2
	if n, err := c.TCPConn.Write(p[:half]); err != nil {
		return n, err
	}
	close(c.begun)
	<-c.goOn
	if c.isBroken.Load() {
		return half, os.ErrDeadlineExceeded
	}
	n, err := c.TCPConn.Write(p[half:])
	return half + n, err
}

func serveSlowly(t *testing.T) *slow {
	t.Helper()
	s := &slow{
		arrived: make(chan string, 100), goOn: map[string]chan struct{}{}, complete: make(chan string, 100),
	}
	for _, path := range []string{"/other", "/third", "/late"} {
		s.goOn[path] = make(chan struct{})
	}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(s.handle))
	s.EnableHTTP2, s.Config.ErrorLog = true, log.New(io.Discard, "", 0)
	s.Config.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: 1}
	s.StartTLS()
	like := transport.New(256)
	like.TLSClientConfig.RootCAs = s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	dial := like.DialContext
	like.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		held := &heldWrite{TCPConn: c.(*net.TCPConn), begun: make(chan struct{}), goOn: make(chan struct{})}
		if s.conn == nil {
			s.conn = held
		}
		return held, nil
	}
	s.fresh = transport.NewFresh(like, parsed(t, s.URL), transport.Options{HTTP2: true})
	t.Cleanup(s.Close)
	t.Cleanup(s.fresh.Close)
	_, err := s.call(t.Context(), "/first", "")
	require.NoError(t, err)
	require.Equal(t, "/first", <-s.complete)
	return s
}

func (s *slow) handle(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/first" {
		s.arrived <- r.URL.Path
		<-s.goOn[r.URL.Path]
	}
	if _, err := io.ReadAll(r.Body); err == nil {
		s.complete <- r.URL.Path
	}
	_, _ = io.WriteString(w, r.URL.Path)
}

func (s *slow) call(ctx context.Context, path, body string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+path, nil)
	if err != nil {
		return "", err
	}
	if body != "" {
		r.Body, r.ContentLength = transport.NewBody([]byte(body)), int64(len(body))
	}
	resp, err := s.fresh.RoundTrip(r)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(resp.Body)
	return string(text), errors.Join(err, resp.Body.Close())
}

func (s *slow) start(ctx context.Context, path, body string) <-chan error {
	ended := make(chan error, 1)
	go func() {
		_, err := s.call(ctx, path, body)
		ended <- err
	}()
	return ended
}

// finish lets all requests end. It returns the paths of those that arrived since the last look, and
// of all with a whole body.
func (s *slow) finish() (arrived, complete []string) {
	for _, goOn := range s.goOn {
		select {
		case <-goOn:
		default:
			close(goOn)
		}
	}
	s.fresh.Close()
	s.Close()
	close(s.arrived)
	close(s.complete)
	for path := range s.arrived {
		arrived = append(arrived, path)
	}
	for path := range s.complete {
		complete = append(complete, path)
	}
	return arrived, complete
}

// TestNothingIsWrittenAfterTheDeadlineOverHTTP2 holds back the head of a request, or its body, until
// its deadline is over or its caller has gone. Another request on the connection gets its response.
func TestNothingIsWrittenAfterTheDeadlineOverHTTP2(t *testing.T) {
	for _, test := range []struct {
		name       string
		isHead     bool // held back, instead of the body
		isCanceled bool
	}{{"head", true, false}, {"body", false, false}, {"body, without its caller", false, true}} {
		t.Run(test.name, func(t *testing.T) {
			s := serveSlowly(t)
			other := s.start(t.Context(), "/other", "")
			require.Equal(t, "/other", <-s.arrived)
			inner, cancel := context.WithCancel(t.Context())
			defer cancel()
			at := time.Now().Add(100 * time.Millisecond)
			if !test.isHead {
				at = time.Now().Add(time.Second) // for the head
			}
			ctx, deadline := transport.WithDeadline(lateTimer{inner, at})
			wait := func() { <-time.After(time.Until(at) + time.Millisecond) }
			ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
				assert.True(t, got.Reused)
				if deadline.Got(); test.isHead {
					wait()
				}
			}})
			ended := s.start(ctx, "/late", "{}")
			if !test.isHead {
				require.Equal(t, "/late", <-s.arrived)
			}
			if test.isCanceled {
				cancel()
				require.ErrorIs(t, <-ended, context.Canceled)
			} else {
				wait()
			}
			close(s.goOn["/late"])
			if !test.isCanceled {
				err := <-ended
				require.ErrorIs(t, err, transport.ErrLate)
				assert.Equal(t, test.isHead, transport.NeverLeft(err))
			}
			third := s.start(t.Context(), "/third", "")
			require.Equal(t, "/third", <-s.arrived)
			close(s.goOn["/third"])
			require.NoError(t, <-third, "the next request")
			close(s.goOn["/other"])
			require.NoError(t, <-other, "another request on the same connection")
			_, complete := s.finish()
			assert.Equal(t, []string{"/third", "/other"}, complete)
		})
	}
}

// TestAbandonedRequestIsNotWrittenLater ends the context of a request in the middle of the write of
// its head: the rest is not written.
func TestAbandonedRequestIsNotWrittenLater(t *testing.T) {
	s := serveSlowly(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.conn.hold.Store(true)
	ended := s.start(ctx, "/late", "")
	<-s.conn.begun
	cancel()
	err := <-ended
	require.ErrorIs(t, err, context.Canceled)
	assert.False(t, transport.NeverLeft(err))
	close(s.conn.goOn)
	arrived, _ := s.finish()
	assert.Empty(t, arrived)
}

// TestConnectionsAreBoundedOverHTTP2 has more requests at once than the service has streams, and one
// with its own connection among them: nobody waits for a connection to grow old.
func TestConnectionsAreBoundedOverHTTP2(t *testing.T) {
	for _, test := range []struct {
		most    int32
		streams int
	}{{1, 2}, {2, 2}, {5, 2}, {1, 100}} {
		t.Run(fmt.Sprint(test), func(t *testing.T) {
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(w, r.Body)
			}))
			server.EnableHTTP2, server.Config.ErrorLog = true, log.New(io.Discard, "", 0)
			server.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: test.streams}
			server.StartTLS()
			defer server.Close()
			like := transport.New(int(test.most))
			like.TLSClientConfig.RootCAs = server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
			var open atomic.Int32
			dial := like.DialContext
			like.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
				assert.LessOrEqual(t, open.Add(1), test.most)
				c, err := dial(ctx, network, address)
				if err != nil {
					return nil, err
				}
				return &countedConn{TCPConn: c.(*net.TCPConn), open: &open}, nil
			}
			s := &slow{Server: server}
			s.fresh = transport.NewFresh(like, parsed(t, server.URL), transport.Options{HTTP2: true})
			defer s.fresh.Close()
			var all sync.WaitGroup
			uploaded := make(chan struct{})
			for range 8 {
				all.Go(func() {
					for isOver := false; !isOver; {
						_, err := s.call(t.Context(), "/", "{}")
						if !transport.NeverLeft(err) { // the service refuses streams above its limit
							assert.NoError(t, err)
						}
						select {
						case <-uploaded:
							isOver = true
						default:
						}
					}
				})
			}
			for range 3 {
				assert.NoError(t, post(t.Context(), s.fresh, server.URL), "with its own connection")
			}
			close(uploaded)
			all.Wait()
		})
	}
}

// TestCanceledRequestsLeaveOthersAlone has requests whose deadline ends while they are written, beside
// patient ones on the same connections. The patient ones succeed, and a request that never left was
// not executed.
func TestCanceledRequestsLeaveOthersAlone(t *testing.T) {
	var executed sync.Map
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(w, r.Body); err == nil {
			executed.Store(r.URL.Path, true)
		}
	}))
	server.EnableHTTP2, server.Config.ErrorLog = true, log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	like := transport.New(4)
	like.TLSClientConfig.RootCAs = server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	s := &slow{Server: server, fresh: transport.NewFresh(like, parsed(t, server.URL), transport.Options{HTTP2: true})}
	defer s.fresh.Close()
	var patient, hasty sync.WaitGroup
	over := make(chan struct{})
	never := map[string]bool{}
	var mu sync.Mutex
	for i := range 8 {
		patient.Go(func() {
			for n := range 100 {
				_, err := s.call(t.Context(), fmt.Sprint("/patient", i, "/", n), "{}")
				assert.NoError(t, err)
			}
		})
		hasty.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-over:
					return
				default:
				}
				path := fmt.Sprint("/hasty", i, "/", n)
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(n%15)*100*time.Microsecond)
				_, err := s.call(ctx, path, "{}")
				cancel()
				mu.Lock()
				never[path] = transport.NeverLeft(err)
				mu.Unlock()
			}
		})
	}
	patient.Wait()
	close(over)
	hasty.Wait()
	s.fresh.Close()
	server.Close()
	for path, never := range never {
		_, ran := executed.Load(path)
		assert.False(t, never && ran, path)
	}
}
