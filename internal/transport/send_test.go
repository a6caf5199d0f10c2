package transport_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptrace"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/internal/transport"
)

// lateTimer is a context whose timer does not fire.
type lateTimer struct {
	context.Context
	at time.Time
}

func (c lateTimer) Deadline() (time.Time, bool) { return c.at, true }

// TestNothingIsWrittenAfterTheDeadline has a deadline end between two hooks of net/http, with a
// timer that does not fire. A request that waits for its connection or its stream is not written,
// and keeps the connection for others. Only in the moment before the write the connection ends.
func TestNothingIsWrittenAfterTheDeadline(t *testing.T) {
	t.Parallel()
	for _, http2 := range []bool{false, true} {
		for _, late := range []string{"", "GotConn", "WroteHeaderField"} {
			if late == "WroteHeaderField" && !http2 {
				continue // as GotConn
			}
			t.Run(fmt.Sprintf("HTTP/2 %t, late at %q", http2, late), func(t *testing.T) {
				t.Parallel()
				s := serve(t, http2)
				fresh := transport.NewFresh(s.like, true)
				defer fresh.CloseIdleConnections()
				at := time.Now().Add(map[bool]time.Duration{true: time.Hour, false: time.Second}[late == ""])
				over := func(hook string) {
					if hook == late {
						<-time.After(time.Until(at) + time.Millisecond)
					}
				}
				send := new(transport.Send).Start(httptrace.WithClientTrace(lateTimer{t.Context(), at}, &httptrace.ClientTrace{
					GotConn:          func(httptrace.GotConnInfo) { over("GotConn") },
					WroteHeaderField: func(string, []string) { over("WroteHeaderField") },
				}))
				_, _, err := post(send, fresh, s.URL, false)
				assert.Equal(t, late != "", err != nil, err)
				assert.Equal(t, late == "", send.Left())
				send.End()
				got, _, err := post(t.Context(), fresh, s.URL, false)
				require.NoError(t, err)
				want := map[bool]string{false: "HTTP/1.1 2", true: "HTTP/2.0 1"}[http2]
				if late != "" && !http2 {
					want = "HTTP/1.1 1" // the first to arrive
				}
				assert.Equal(t, want, got)
			})
		}
	}
}

// A response is read after the deadline by the clock, if the request was written before: the timer of
// the context decides.
func TestWrittenRequestIsAnsweredAfterAStop(t *testing.T) {
	t.Parallel()
	for _, http2 := range []bool{false, true} {
		t.Run(fmt.Sprint("HTTP/2 ", http2), func(t *testing.T) {
			t.Parallel()
			s := serve(t, http2)
			fresh := transport.NewFresh(s.like, true)
			defer fresh.CloseIdleConnections()
			at := time.Now().Add(3 * time.Second) // a busy machine writes late
			send := new(transport.Send).Start(httptrace.WithClientTrace(lateTimer{t.Context(), at}, &httptrace.ClientTrace{
				GotFirstResponseByte: func() { <-time.After(time.Until(at) + time.Millisecond) },
			}))
			_, _, err := post(send, fresh, s.URL, false)
			require.NoError(t, err)
			require.NoError(t, send.Err(), "net/http asks it while the response is on its way")
			assert.True(t, send.Left())
		})
	}
}

// TestConnectionGuardsItsRequest writes before and after the end of a request, and the end of its
// deadline. A request that never ends holds nothing back.
func TestConnectionGuardsItsRequest(t *testing.T) {
	now := time.Now()
	for _, test := range []struct {
		name       string
		deadline   time.Time
		hasEnded   bool
		want       error
		isCanceled bool
	}{
		{"in time", now.Add(time.Hour), false, nil, false},
		{"late", now.Add(-time.Nanosecond), false, transport.ErrLate, true},
		{"the machine slept", transport.Sleep(now.Add(time.Hour), 2*time.Hour), false, transport.ErrLate, true},
		{"ended", now.Add(time.Hour), true, transport.ErrLate, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			defer theirs.Close()
			go func() { _, _ = io.Copy(io.Discard, theirs) }()
			send := new(transport.Send).Start(lateTimer{t.Context(), test.deadline})
			conn := transport.Guard(ours, send)
			if test.hasEnded {
				send.End()
			}
			_, err := io.WriteString(conn, "the request")
			require.ErrorIs(t, err, test.want)
			assert.Equal(t, test.want == nil, send.Left())
			assert.Equal(t, test.isCanceled, send.Err() != nil)
			select {
			case <-send.Done():
				assert.True(t, test.isCanceled)
			default:
				assert.False(t, test.isCanceled)
			}
		})
	}
}

// A request is written between two questions of net/http, after the deadline by the clock. Package
// context panics if Err is nil after Done.
func TestContextThatHasEndedStaysSo(t *testing.T) {
	send := new(transport.Send).Start(lateTimer{t.Context(), time.Now().Add(-time.Nanosecond)})
	<-send.Done()
	send.Wrote()
	require.ErrorIs(t, send.Err(), context.DeadlineExceeded)
	<-send.Done()
}

// TestPermissionHoldsTheFirstByte writes with and without permission. A request whose first byte has
// left needs no permission.
func TestPermissionHoldsTheFirstByte(t *testing.T) {
	refused := errors.New("refused")
	for _, test := range []struct {
		name    string
		before  time.Time
		err     error
		want    error
		refused error
	}{
		{"allowed", time.Now().Add(time.Hour), nil, nil, nil},
		{"too late", time.Now().Add(-time.Nanosecond), nil, transport.ErrLate, transport.ErrHeld},
		{"refused", time.Time{}, refused, transport.ErrLate, refused},
	} {
		t.Run(test.name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			defer theirs.Close()
			go func() { _, _ = io.Copy(io.Discard, theirs) }()
			before := test.before
			send := new(transport.Send).Start(transport.WithPermission(t.Context(), func() (time.Time, error) {
				return before, test.err
			}))
			conn := transport.Guard(ours, send)
			_, err := io.WriteString(conn, "the head")
			require.ErrorIs(t, err, test.want)
			assert.Equal(t, test.want == nil, send.Left())
			assert.Equal(t, test.want == nil, send.Err() == nil)
			assert.Equal(t, test.refused, send.Refused())
			if before = time.Now(); test.want == nil {
				transport.Guard(conn, send)
				_, err = io.WriteString(conn, "the body")
				require.NoError(t, err)
				require.NoError(t, send.Err())
				require.NoError(t, send.Refused())
			}
		})
	}
}

// TestNoDeadlineHoldsNothingBack has a context without a deadline.
func TestNoDeadlineHoldsNothingBack(t *testing.T) {
	s := serve(t, true)
	fresh := transport.NewFresh(s.like, true)
	defer fresh.CloseIdleConnections()
	_, _, err := post(new(transport.Send).Start(t.Context()), fresh, s.URL, false)
	require.NoError(t, err)
}
