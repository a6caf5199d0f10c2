package transport_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http/httptrace"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/internal/transport"
)

// TestNothingIsWrittenAfterAStop has the process stand still. Whether a write or the clock of the
// connection notices the stop first, the connection ends.
func TestNothingIsWrittenAfterAStop(t *testing.T) {
	for _, test := range []struct {
		name   string
		stop   time.Duration
		isIdle bool // after the stop, until the clock of the connection has ticked
		want   error
	}{
		{"write first", transport.MaxStop + 1, false, transport.ErrLate},
		{"tick first", transport.MaxStop + 1, true, transport.ErrLate},
		{"short stop", transport.MaxStop - transport.Tick, true, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ours, theirs := net.Pipe()
				defer theirs.Close()
				conn := transport.Watch(ours)
				defer conn.Close()
				got := make(chan string, 2)
				go func() {
					text, _ := bufio.NewReader(theirs).ReadString('\n')
					got <- text
				}()
				time.Sleep(time.Minute) //nolint:forbidigo // of the bubble: no stop
				transport.Stop(conn, test.stop)
				if test.isIdle {
					time.Sleep(2 * transport.Tick) //nolint:forbidigo // of the bubble
				}
				if test.isIdle && test.want != nil {
					got <- <-got // the other end is closed before the write
				}
				_, err := io.WriteString(conn, "the request\n")
				require.ErrorIs(t, err, test.want)
				assert.Equal(t, test.want == nil, <-got != "")
			})
		})
	}
}

// While a machine sleeps, the monotonic clock stands still: the wall clock tells.
func TestNothingIsWrittenAfterASleep(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	conn := transport.Watch(ours)
	go func() { _, _ = io.Copy(io.Discard, theirs) }()
	transport.Sleep(conn, transport.MaxStop+time.Second)
	_, err := io.WriteString(conn, "the request")
	require.ErrorIs(t, err, transport.ErrLate)
}

// lateTimer is a context whose timer does not fire.
type lateTimer struct {
	context.Context
	at time.Time
}

func (c lateTimer) Deadline() (time.Time, bool) { return c.at, true }

// TestNothingIsWrittenAfterTheDeadline has the deadline of a request end after its connection is
// opened, with a timer that does not fire: after the handshake of TLS, the connection writes
// nothing. The next request is not affected.
func TestNothingIsWrittenAfterTheDeadline(t *testing.T) {
	t.Parallel()
	for _, http2 := range []bool{false, true} {
		for _, isLate := range []bool{false, true} {
			t.Run(fmt.Sprintf("HTTP/2 %t, late %t", http2, isLate), func(t *testing.T) {
				t.Parallel()
				s := serve(t, http2)
				fresh := transport.NewFresh(s.like, true)
				defer fresh.CloseIdleConnections()
				at := time.Now().Add(time.Second)
				ctx, deadline := transport.WithDeadline(lateTimer{t.Context(), at})
				over := func() { <-time.After(time.Until(at) + time.Millisecond) }
				traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
					if isLate {
						over()
					}
					assert.Equal(t, isLate, deadline.IsOver())
					deadline.Got(got.Conn)
				}})
				_, _, err := post(traced, fresh, s.URL, false)
				assert.Equal(t, isLate, err != nil, err)
				assert.True(t, deadline.NeverLeft() == isLate || http2)
				over()
				deadline.End()
				got, _, err := post(t.Context(), fresh, s.URL, false)
				require.NoError(t, err)
				want := map[bool]string{false: "HTTP/1.1 2", true: "HTTP/2.0 1"}[http2]
				if isLate && !http2 {
					want = "HTTP/1.1 1" // the first to arrive
				}
				assert.Equal(t, want, got)
			})
		}
	}
}

// TestDeadlineOfAnEndedRequestHoldsNothingBack has a request open a connection and end without it:
// another request can have the connection after the deadline.
func TestDeadlineOfAnEndedRequestHoldsNothingBack(t *testing.T) {
	t.Parallel()
	for _, isEnded := range []bool{false, true} {
		t.Run(fmt.Sprint(isEnded), func(t *testing.T) {
			t.Parallel()
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			defer listener.Close()
			ctx, deadline := transport.WithDeadline(lateTimer{t.Context(), time.Now().Add(time.Second)})
			conn, err := transport.Dial(ctx, "tcp", listener.Addr().String())
			require.NoError(t, err)
			defer conn.Close()
			for !deadline.IsOver() {
				<-time.After(time.Millisecond)
			}
			if isEnded {
				deadline.End()
			}
			_, err = io.WriteString(conn, "another request")
			assert.Equal(t, isEnded, err == nil, err)
		})
	}
}

// TestNoDeadlineHoldsNothingBack has a context without a deadline.
func TestNoDeadlineHoldsNothingBack(t *testing.T) {
	ctx, deadline := transport.WithDeadline(t.Context())
	assert.Equal(t, t.Context(), ctx)
	assert.Nil(t, deadline)
	deadline.Got(nil)
	deadline.End()
	assert.False(t, deadline.IsOver())
	assert.False(t, deadline.NeverLeft())
}
