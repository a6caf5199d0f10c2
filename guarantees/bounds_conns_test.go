package guarantees_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/wire"
)

// stalling is a service that reads requests and answers none before goOn.
type stalling struct {
	url     string
	goOn    chan struct{}
	arrived chan struct{}
	open    atomic.Int32
}

func newStalling(t *testing.T) *stalling {
	t.Helper()
	s := &stalling{goOn: make(chan struct{}), arrived: make(chan struct{}, 10_000)}
	s.url = "http://" + wire.ListenRaw(t, s.serve)
	return s
}

func (s *stalling) serve(conn net.Conn) {
	s.open.Add(1)
	defer s.open.Add(-1)
	for reader := bufio.NewReader(conn); ; {
		r, err := http.ReadRequest(reader)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		s.arrived <- struct{}{}
		<-s.goOn
		if _, err := io.WriteString(conn, wire.RawReply(http.StatusOK, nil, `"done"`)); err != nil {
			return
		}
	}
}

// outcomes makes n calls at once and returns how often each outcome came of them. Between,
// when the service has the first of them, it calls meanwhile.
func (s *stalling) outcomes(n, first int, call func() error, meanwhile func()) map[lending.Outcome]int {
	var mu sync.Mutex
	var calls sync.WaitGroup
	found := map[lending.Outcome]int{}
	for range n {
		calls.Go(func() {
			outcome := lending.OutcomeOf(call())
			mu.Lock()
			defer mu.Unlock()
			found[outcome]++
		})
	}
	for range first {
		<-s.arrived
	}
	meanwhile()
	calls.Wait()
	return found
}

func cancelOn(client *lending.Client) func(context.Context) error {
	return func(ctx context.Context) error { return client.Applications.Cancel(ctx, catalog.Application) }
}

// Calls beyond the bound wait without a connection until their context ends, and are then not sent.
// Calls that wait longer get through when the service goes on.
func TestConnectionsAreBoundedInAStall(t *testing.T) {
	t.Parallel()
	status := func(client *lending.Client) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := client.Applications.Status(ctx, catalog.Application)
			return err
		}
	}
	for _, test := range []struct {
		name    string
		of      func(*lending.Client) func(context.Context) error
		n, most int
	}{
		{"mutations", cancelOn, 400, 256},
		{"reads", status, 400, 256},
	} {
		t.Run(test.name, func(t *testing.T) {
			service := newStalling(t)
			client := wire.NewClient(t, service.url, withToken)
			ctx, giveUp := context.WithCancel(t.Context())
			var open int32
			ended := service.outcomes(test.n, test.most, func() error { return test.of(client)(ctx) }, func() {
				open = service.open.Load()
				giveUp()
			})
			assert.EqualValues(t, test.most, open, "connections")
			assert.Equal(t, test.n, ended[lending.OutcomeUnknown]+ended[lending.OutcomeNotSent])
			if test.name != "reads" { // a connection that is given up can go to another call in that instant
				assert.Greater(t, ended[lending.OutcomeNotSent], (test.n-test.most)/8)
			}
			close(service.goOn)
		})
		t.Run(test.name+" that go on", func(t *testing.T) {
			service := newStalling(t)
			client := wire.NewClient(t, service.url, withToken)
			call := func() (err error) {
				for err = test.of(client)(t.Context()); dialTimedOut(err); { // by a busy machine
					err = test.of(client)(t.Context())
				}
				return err
			}
			ended := service.outcomes(test.n, test.most, call, func() { close(service.goOn) })
			assert.Equal(t, map[lending.Outcome]int{lending.OutcomeDone: test.n}, ended)
		})
	}
}

func dialTimedOut(err error) bool {
	var dial *net.OpError
	return errors.As(err, &dial) && dial.Op == "dial" && dial.Timeout()
}

// newStallingHTTP2 returns a stalling service with HTTP/2. most is the largest number of its requests
// at once.
func newStallingHTTP2(t *testing.T) (s *stalling, most func() int32) {
	t.Helper()
	s = &stalling{goOn: make(chan struct{}), arrived: make(chan struct{}, 10_000)}
	var mu sync.Mutex
	var now, greatest int32
	count := func(n int32) {
		mu.Lock()
		defer mu.Unlock()
		now += n
		greatest = max(greatest, now)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		count(1)
		s.arrived <- struct{}{}
		select {
		case <-s.goOn:
		case <-r.Context().Done():
		}
		count(-1)
		wire.Answer(http.StatusOK, "true")(w, r)
	}))
	server.EnableHTTP2, server.Config.ErrorLog = true, quietLog
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.open.Add(1)
		}
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	s.url = server.URL
	return s, func() int32 { return greatest }
}

// TestCallsOverHTTP2AreBounded has more callers than the usual limit of services allows at once. The
// calls beyond the bound wait, and share a connection with the others.
func TestCallsOverHTTP2AreBounded(t *testing.T) {
	t.Parallel()
	const callers, bound = 150, 90
	for _, givesUp := range []bool{false, true} {
		t.Run(fmt.Sprintf("gives up %t", givesUp), func(t *testing.T) {
			service, most := newStallingHTTP2(t)
			call := cancelOn(wire.NewClient(t, service.url, withToken))
			ctx, giveUp := context.WithCancel(t.Context())
			defer giveUp()
			go func() { service.goOn <- struct{}{} }()
			require.NoError(t, call(ctx)) // the client knows the protocol
			<-service.arrived
			ended := service.outcomes(callers, bound, func() error { return call(ctx) }, func() {
				if givesUp {
					giveUp()
				} else {
					close(service.goOn)
				}
			})
			assert.EqualValues(t, 1, service.open.Load(), "connections")
			if givesUp { // a place that is given up can go to another call in that instant
				assert.Equal(t, callers, ended[lending.OutcomeUnknown]+ended[lending.OutcomeNotSent])
				assert.Greater(t, ended[lending.OutcomeNotSent], (callers-bound)/8)
				return
			}
			assert.Equal(t, map[lending.Outcome]int{lending.OutcomeDone: callers}, ended)
			assert.EqualValues(t, bound, most())
		})
	}
}
