package guarantees_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/leak"
	"github.com/lendingapi/lending-go/internal/test/wire"
)

// inOrder returns a client whose attempts get the responses of the functions in turn, and then the
// last response again, and the count of the attempts.
func inOrder(t *testing.T, answers ...wire.RoundTripper) (client *lending.Client, attempts *int) {
	t.Helper()
	attempts = new(int)
	return wire.InMemory(t, func(r *http.Request) (*http.Response, error) {
		*attempts++
		return answers[min(*attempts, len(answers))-1](r)
	}), attempts
}

func TestReadIsRetriedAsOftenAsTheOptionSays(t *testing.T) {
	for _, retries := range []int{0, 1, 4, 7} {
		t.Run(strconv.Itoa(retries), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				attempts := 0
				client := wire.InMemory(t, func(r *http.Request) (*http.Response, error) {
					attempts++
					return wire.Reply(503, busy)(r)
				}, lending.WithReadRetries(retries))
				_, err := client.Applications.Status(t.Context(), catalog.Application)
				require.ErrorContains(t, err, "503")
				assert.Equal(t, 1+retries, attempts)
			})
		})
	}
}

func TestNumberOfReadRetriesHasBounds(t *testing.T) {
	for _, retries := range []int{-1, 101} {
		_, err := lending.New("https://lending.example", lending.WithReadRetries(retries))
		require.ErrorContains(t, err, "WithReadRetries must be 0 to 100")
	}
}

// A transport without a connection is a test's. Its errors do not change from attempt to attempt.
func TestErrorOfATransportWithoutAConnectionEndsARead(t *testing.T) {
	missing := errors.New("no responder found")
	const status = "lending: GET /api/Application/application-status/{applicationId}: "
	for _, test := range []struct {
		name     string
		err      error
		text     string
		attempts int
	}{
		{"sentinel", missing, "the http.Client failed: no responder found", 1},
		{"wrapped", fmt.Errorf("for 123-45-6789: %w", missing), "the http.Client failed: no responder found", 1},
		{"with a value", fmt.Errorf("no stub for %s", "Mueller"), "the http.Client failed: no stub for [redacted]", 1},
		{
			"of another type", &json.SyntaxError{},
			"the http.Client failed: an error of type *json.SyntaxError, not shown because its text may be confidential", 1,
		},
		{"of the network", io.ErrUnexpectedEOF, "connection closed before the answer was complete", 5},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				attempts := 0
				client := wire.NewClient(t, "https://lending.example",
					lending.WithTokenSource(lending.StaticToken("of-mueller")),
					withTransport(func(*http.Request) (*http.Response, error) { attempts++; return nil, test.err }))
				_, err := client.Applications.Status(t.Context(), catalog.Application)
				require.EqualError(t, err, status+test.text)
				require.ErrorIs(t, err, test.err)
				assert.Equal(t, test.attempts, attempts)
				_, err = client.Applications.Process(t.Context(), catalog.Application)
				assert.Equal(t, lending.OutcomeUnknown, lending.OutcomeOf(err), "a double proves nothing")
			})
		})
	}
}

// stalls does not respond before the caller gives up.
func stalls(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

const busy = `{"status":503,"errorCode":"Busy","traceId":"trace-1"}`

func TestReadWaitsAsRetryAfterSays(t *testing.T) {
	in := func(wait time.Duration) string { return time.Now().Add(wait).UTC().Format(http.TimeFormat) }
	for _, test := range []struct {
		name   string
		header func() []string
		wait   time.Duration
	}{
		{"seconds", func() []string { return []string{"Retry-After", "3600"} }, time.Hour},
		{"date", func() []string { return []string{"Retry-After", in(time.Hour)} }, time.Hour},
		{"date of a clock that is two days behind", func() []string {
			return []string{"Retry-After", in(time.Minute - 48*time.Hour), "Date", in(-48 * time.Hour)}
		}, time.Minute},
		{"date that is past", func() []string { return []string{"Retry-After", in(-time.Hour)} }, 0},
		{"none", func() []string { return nil }, 0},
		{"zero", func() []string { return []string{"Retry-After", "0"} }, 0},
		{"negative", func() []string { return []string{"Retry-After", "-5"} }, 0},
		{"nonsense", func() []string { return []string{"Retry-After", "soon"} }, 0},
	} {
		for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
			t.Run(fmt.Sprint(status, " ", test.name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					client, attempts := inOrder(t, wire.Reply(status, busy, test.header()...),
						wire.Reply(200, `"Open"`))
					ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
					defer cancel()
					start := time.Now()
					got, err := client.Applications.Status(ctx, catalog.Application)
					require.NoError(t, err)
					assert.Equal(t, "Open", got)
					assert.Equal(t, 2, *attempts)
					backOff := time.Since(start) - test.wait
					assert.GreaterOrEqual(t, backOff, 100*time.Millisecond)
					assert.LessOrEqual(t, backOff, 500*time.Millisecond)
				})
			})
		}
	}
}

func TestReadIsNotRepeatedPastTheDeadline(t *testing.T) {
	for _, test := range []struct {
		name, retryAfter string
		left, says       time.Duration
		deadline         bool
	}{
		{"longer than the context has left", "60", 30 * time.Second, time.Minute, true},
		{"longer than is waited for", "3601", 100 * time.Hour, time.Hour + time.Second, false},
		{"overflows a duration", "9223372037", 100 * time.Hour, 24 * time.Hour, false},
		{"overflows a number", "99999999999999999999999", 100 * time.Hour, 24 * time.Hour, false},
		{"no deadline of the caller", "600", 0, 10 * time.Minute, true},
		{"the back-off is longer than the context has left", "0", 90 * time.Millisecond, 0, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, attempts := inOrder(t, wire.Reply(429, busy, "Retry-After", test.retryAfter))
				ctx := t.Context()
				if test.left > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, test.left)
					defer cancel()
				}
				start := time.Now()
				_, err := client.Applications.Status(ctx, catalog.Application)
				assert.Zero(t, time.Since(start))
				assert.Equal(t, 1, *attempts)
				require.ErrorIs(t, err, lending.ErrRateLimited)
				assert.Equal(t, test.deadline, errors.Is(err, context.DeadlineExceeded), err)
				var failed *lending.Error
				require.ErrorAs(t, err, &failed)
				assert.Equal(t, test.says, failed.RetryAfter)
				assert.Equal(t, "Busy", failed.Problem.ErrorCode)
			})
		})
	}
}

// The end of the context does not hide the last response of the service.
func TestLastResponseIsKeptAtTheDeadline(t *testing.T) {
	for _, test := range []struct {
		name   string
		second wire.RoundTripper
	}{{"while it waits", nil}, {"while it is sent again", stalls}} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				answers := []wire.RoundTripper{wire.Reply(503, busy, "Retry-After", "1800")}
				end := 10 * time.Second
				if test.second != nil {
					answers[0] = wire.Reply(503, busy)
					answers = append(answers, test.second)
				}
				client, _ := inOrder(t, answers...)
				ctx, cancel := context.WithCancel(t.Context())
				ctx, stop := context.WithTimeout(ctx, time.Hour)
				defer stop()
				time.AfterFunc(end, cancel)
				start := time.Now()
				_, err := client.Applications.Status(ctx, catalog.Application)
				assert.Equal(t, end, time.Since(start))
				require.ErrorIs(t, err, context.Canceled)
				var failed *lending.Error
				require.ErrorAs(t, err, &failed)
				assert.Equal(t, 503, failed.StatusCode)
				assert.Equal(t, "Busy", failed.Problem.ErrorCode)
				assert.Equal(t, "lending: GET /api/Application/application-status/{applicationId}: 503 Service "+
					"Unavailable: context canceled: errorCode Busy: trace trace-1", err.Error())
			})
		})
	}
}

// The repeats of net/http are counted and come to an end, even if the peer refuses every connection
// or connections are stale.
func TestReadIsSentABoundedNumberOfTimes(t *testing.T) {
	t.Parallel()
	own := func(*http.Transport) lending.Option { return nil }
	foreign := func(transport *http.Transport) lending.Option {
		return lending.WithHTTPClient(&http.Client{Transport: transport})
	}
	for _, test := range []struct {
		name   string
		fault  fault
		client func(*http.Transport) lending.Option
		least  int
		most   int
		fails  string
	}{
		{
			"HTTP/2, GOAWAY before the stream",
			fault{Client: "h2c", On: "always", Then: "goaway-before"},
			foreign, 5, 10,
			"again and again",
		},
		{
			"HTTP/2, GOAWAY after the stream",
			fault{Client: "h2c", On: "always", Then: "goaway-after"},
			foreign, 5, 10,
			"connection closed",
		},
		{
			"HTTP/2, RST_STREAM, protocol",
			fault{Client: "h2c", On: "always", Then: "reset-protocol"},
			foreign, 5, 10,
			"",
		},
		{"HTTP/1.1, five stale connections", fault{On: "warm", Then: "rst", Warm: 5}, foreign, 1, 6, "-"},
		{"HTTP/1.1, five stale connections, own", fault{On: "warm", Then: "rst", Warm: 5}, own, 1, 6, "-"},
		{"HTTP/1.1, all connections go stale", fault{On: "always", Then: "fin", Warm: 5}, foreign, 5, 10, ""},
		{
			"HTTP/1.1, twelve stale connections",
			fault{On: "warm", Then: "rst", Warm: 12},
			foreign, 10, 10,
			"again and again",
		},
		{
			"HTTP/1.1, twelve stale connections own",
			fault{On: "warm", Then: "rst", Warm: 12},
			own, 10, 10,
			"again and again",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			arrivals, attempts, err := 0, 0, error(nil)
			for range 5 { // a busy machine throws idle connections away before the read
				arrivals, attempts, err = readAtFaults(t, test.fault, test.client)
				assert.LessOrEqual(t, arrivals, test.most)
				if arrivals >= test.least && (err != nil || test.fails == "-") {
					break
				}
			}
			assert.GreaterOrEqual(t, arrivals, test.least)
			assert.Equal(t, arrivals, attempts)
			if test.fails == "-" {
				require.NoError(t, err)
				return
			}
			var failed *lending.Error
			require.ErrorAs(t, err, &failed)
			require.ErrorContains(t, err, test.fails)
			assert.Equal(t, arrivals, failed.Attempts)
			assert.Equal(t, lending.OutcomeUnknown, failed.Outcome)
		})
	}
}

// readAtFaults makes a read at a service with a fault. It returns the sends that arrived, and those that
// the client counted.
func readAtFaults(
	t *testing.T, f fault, with func(*http.Transport) lending.Option,
) (arrivals, attempts int, err error) {
	t.Helper()
	service := newFaultServer(t, f, `"Open"`)
	defer service.Close()
	transport := &http.Transport{MaxIdleConnsPerHost: 16, Protocols: new(http.Protocols)}
	defer transport.CloseIdleConnections()
	transport.Protocols.SetHTTP1(f.Client == "")
	transport.Protocols.SetUnencryptedHTTP2(f.Client == "h2c")
	var counted atomic.Int32 // of the last call
	client := wire.NewClient(t, service.URL(), with(transport), withToken,
		lending.WithObserver(func(ctx context.Context, _ lending.Call) (context.Context, func(lending.Call)) {
			return ctx, func(c lending.Call) { counted.Store(int32(c.Attempts)) }
		}, nil))
	require.NoError(t, service.warm(t.Context(), client))
	_, err = client.Applications.Status(t.Context(), catalog.Application)
	return int(service.arrivals.Load()), int(counted.Load()), err
}

// In TestStoppedSendIsNotCounted net/http formats the head of a request and cannot write it.
func TestStoppedSendIsNotCounted(t *testing.T) {
	client := wire.InMemory(t, func(r *http.Request) (*http.Response, error) {
		trace := httptrace.ContextClientTrace(r.Context())
		for r.Context().Err() == nil {
			trace.GotConn(httptrace.GotConnInfo{})
			trace.WroteHeaderField("Host", []string{r.Host})
		}
		return nil, r.Context().Err()
	})
	_, err := client.Applications.Status(t.Context(), catalog.Application)
	var failed *lending.Error
	require.ErrorAs(t, err, &failed)
	assert.Equal(t, 10, failed.Attempts)
}

// The Timeout of the caller's http.Client is a timeout of the network, not the end of the caller's
// context.
func TestTimeoutOfTheHTTPClientIsATimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := wire.NewClient(t, "https://lending.example", withToken,
			lending.WithHTTPClient(&http.Client{Transport: wire.RoundTripper(stalls), Timeout: 3 * time.Second}))
		start := time.Now()
		err := client.Applications.Cancel(t.Context(), catalog.Application)
		assert.Equal(t, 3*time.Second, time.Since(start))
		assert.NotErrorIs(t, err, context.Canceled)
		assert.ErrorIs(t, err, lending.ErrOutcomeUnknown)
		assert.ErrorContains(t, err, "cancel-application/{applicationId}: timeout: outcome unknown")
		var timeout interface{ Timeout() bool }
		require.ErrorAs(t, err, &timeout)
		assert.True(t, timeout.Timeout())
	})
}

// The timer ends with the call.
func TestTimeoutOfTheHTTPClientLeavesNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which fails if a goroutine waits for ever
		client := wire.NewClient(t, "https://lending.example", withToken,
			lending.WithHTTPClient(&http.Client{Transport: wire.Reply(200, `"Open"`), Timeout: 1000 * time.Hour}))
		start := time.Now()
		_, err := client.Applications.Status(t.Context(), catalog.Application)
		require.NoError(t, err)
		require.NoError(t, client.Applications.Cancel(t.Context(), catalog.Application))
		synctest.Wait()
		stack := leak.Goroutines()
		assert.NotContains(t, stack, "setRequestCancel")
		assert.Zero(t, time.Since(start))
	})
}
