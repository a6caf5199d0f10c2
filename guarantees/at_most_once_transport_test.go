package guarantees_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/wire"
)

// net/http does not repeat a mutation by itself even below a transport that hides from the trace of
// the call, where no fuse can see it. Over HTTP/2 net/http repeats streams after some resets. A POST
// without a body has no guard there: only the trace of the call stops its repetition.
func TestGuardHoldsWhereNothingIsSeen(t *testing.T) {
	for _, f := range []fault{
		{On: "always", Then: "fin", Warm: 1},
		{Client: "h2c", On: "first", Then: "reset-protocol"},
		{Client: "h2c", On: "first", Then: "reset-refused"},
		{Client: "h2c", On: "first", Then: "goaway-before"},
	} {
		for _, name := range []string{"Applications.Process", "Applications.CreateCustomer", "Applications.Cancel"} {
			if f.Client == "h2c" && name == "Applications.Cancel" {
				continue
			}
			t.Run(f.Client+" "+f.Then+" "+name, func(t *testing.T) {
				service := newFaultServer(t, f, "{}")
				defer service.Close()
				below := &http.Transport{Protocols: new(http.Protocols)}
				below.Protocols.SetHTTP1(f.Client == "")
				below.Protocols.SetUnencryptedHTTP2(f.Client == "h2c")
				defer below.CloseIdleConnections()
				client := wire.NewClient(t, service.URL(), withToken,
					withTransport(func(r *http.Request) (*http.Response, error) {
						return below.RoundTrip(r.WithContext(t.Context()))
					}))
				require.NoError(t, service.warm(t.Context(), client))
				require.ErrorIs(t, second(catalog.Calls[name](t.Context(), client)), lending.ErrOutcomeUnknown)
				assert.EqualValues(t, 1, service.arrivals.Load())
			})
		}
	}
}

// TestClientSpeaksHTTP2IfItCan counts the connections of a service. Over HTTP/2 all calls share one
// after the first mutation, except large documents. Close closes all connections.
func TestClientSpeaksHTTP2IfItCan(t *testing.T) {
	calls := []struct {
		name string
		call func(context.Context, *lending.Client) error
	}{
		{"read", func(ctx context.Context, c *lending.Client) error {
			return second(c.Applications.Status(ctx, catalog.Application))
		}},
		{"mutation", func(ctx context.Context, c *lending.Client) error {
			return c.Applications.Cancel(ctx, catalog.Application)
		}},
		{"mutating GET", func(ctx context.Context, c *lending.Client) error {
			return second(c.Applications.Process(ctx, catalog.Application))
		}},
		{"read again", func(ctx context.Context, c *lending.Client) error {
			return second(c.Applications.Status(ctx, catalog.Application))
		}},
		{"document", func(ctx context.Context, c *lending.Client) error {
			document := lending.Document{Name: "a.pdf", Content: strings.NewReader(strings.Repeat("%PDF-1.7", 1<<20))}
			return c.Applications.SubmitBankStatement(ctx, catalog.Application, document)
		}},
	}
	apart := []string{"HTTP/1.1 1", "HTTP/1.1 2", "HTTP/1.1 3", "HTTP/1.1 1", "HTTP/1.1 4"}
	for _, test := range []struct {
		name   string
		offers bool
		opts   []lending.Option
		want   []string // protocol and connection of each call
	}{
		{"both", true, nil, []string{"HTTP/1.1 1", "HTTP/2.0 2", "HTTP/2.0 2", "HTTP/2.0 2", "HTTP/1.1 3"}},
		{"switched off", true, []lending.Option{lending.WithoutHTTP2()}, apart},
		{"service without", false, nil, apart},
	} {
		t.Run(test.name, func(t *testing.T) {
			connections, got, open := map[string]int{}, []string{}, atomic.Int32{}
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				if connections[r.RemoteAddr] == 0 {
					connections[r.RemoteAddr] = len(connections) + 1
				}
				got = append(got, fmt.Sprint(r.Proto, " ", connections[r.RemoteAddr]))
				answer := `"` + catalog.Loan.String() + `"`
				if strings.Contains(r.URL.Path, "submit") {
					answer = "true"
				}
				wire.Answer(http.StatusOK, answer)(w, r)
			}))
			server.EnableHTTP2 = test.offers
			server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				open.Add(map[http.ConnState]int32{http.StateNew: 1, http.StateClosed: -1}[state])
			}
			server.StartTLS()
			defer server.Close()
			client := wire.NewClient(t, server.URL, append(test.opts, withToken)...)
			for _, c := range calls {
				require.NoError(t, c.call(t.Context(), client), c.name)
			}
			assert.Equal(t, test.want, got)
			client.Close()
			// By itself net/http keeps an idle connection for 30 seconds.
			assert.Eventually(t, func() bool { return open.Load() == 0 }, 20*time.Second, 5*time.Millisecond)
		})
	}
}

// TestTransportThatRepeatsIsStoppedEveryTime repeats what TestConformance tries once per
// route: the end of the context alone stops most requests on a reused connection, but
// not all.
func TestTransportThatRepeatsIsStoppedEveryTime(t *testing.T) {
	var arrivals atomic.Int32
	twice := withTransport(func(r *http.Request) (*http.Response, error) {
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			return resp, err
		}
		_ = resp.Body.Close()
		again := r.Clone(r.Context())
		again.Body = http.NoBody
		return http.DefaultTransport.RoundTrip(again)
	})
	client := wire.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		arrivals.Add(1)
		wire.Answer(http.StatusServiceUnavailable, "{}")(w, r)
	}, twice)
	for range 2000 {
		assert.ErrorContains(t, client.Applications.Cancel(t.Context(), catalog.Application), "the request twice")
	}
	assert.EqualValues(t, 2000, arrivals.Load())
}

// A request that a caller's transport sends with the call's context does not count as the call's.
func TestTransportMayCallOthers(t *testing.T) {
	var arrivals, asked atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { asked.Add(1) }))
	defer other.Close()
	transport := withTransport(func(r *http.Request) (*http.Response, error) {
		for range 2 {
			before, err := http.NewRequestWithContext(r.Context(), http.MethodPost, other.URL,
				strings.NewReader("grant"))
			if err != nil {
				return nil, err
			}
			resp, err := http.DefaultTransport.RoundTrip(before)
			if err != nil {
				return nil, err
			}
			_ = resp.Body.Close()
		}
		return http.DefaultTransport.RoundTrip(r)
	})
	client := wire.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		arrivals.Add(1)
		wire.Answer(http.StatusBadRequest, "{}")(w, r)
	}, transport)
	for range 3 {
		assert.Equal(t, lending.OutcomeRejected,
			lending.OutcomeOf(client.Applications.Cancel(t.Context(), catalog.Application)))
	}
	assert.EqualValues(t, 3, arrivals.Load())
	assert.EqualValues(t, 6, asked.Load())
}

// A mutation is sent once if a caller's transport replaces every mark except the token. TestConformance
// replaces the others.
func TestTransportMayReplaceHeaders(t *testing.T) {
	service := newFaultServer(t, fault{On: "always", Then: "fin", Warm: 4}, "")
	defer service.Close()
	transport := &http.Transport{MaxIdleConnsPerHost: 8}
	defer transport.CloseIdleConnections()
	client := wire.NewClient(t, service.URL(), withToken,
		withTransport(rewriting(transport, "Idempotency-Key", "User-Agent", "Host")))
	require.NoError(t, service.warm(t.Context(), client))
	require.ErrorIs(t, client.Applications.Cancel(t.Context(), catalog.Application), lending.ErrOutcomeUnknown)
	assert.EqualValues(t, 1, service.arrivals.Load())
}

// The answer to one of two copies does not speak for the other, unless it is a success.
func TestTwoCopiesLeaveDoubt(t *testing.T) {
	for _, test := range []struct {
		status int
		want   lending.Outcome
	}{{400, lending.OutcomeUnknown}, {401, lending.OutcomeUnknown}, {200, lending.OutcomeDone}} {
		t.Run(fmt.Sprint(test.status), func(t *testing.T) {
			_, err := wire.InMemory(t, func(r *http.Request) (*http.Response, error) {
				for range 2 {
					httptrace.ContextClientTrace(r.Context()).WroteHeaderField("Host", []string{r.Host})
				}
				return wire.Reply(test.status, "{")(r)
			}).Applications.CreateCustomer(t.Context(), fake.Ada())
			require.Error(t, err)
			assert.Equal(t, test.want, lending.OutcomeOf(err), err)
		})
	}
}

// The head of a GET that changes state ends its stream over HTTP/2. After an empty DATA frame, gateways
// forward the GET with a chunked body, and strict services refuse it.
func TestMutatingGETHasNoBody(t *testing.T) {
	t.Parallel()
	var data, arrived atomic.Int32
	client := wire.NewClient(t, listenHTTP2(t, func(c *h2Conn, stream uint32) bool {
		arrived.Add(1)
		if _, ok := c.bodies[stream]; ok {
			data.Add(1)
		}
		c.respond(stream, `{}`)
		return true
	}), withToken)
	names := []string{
		"Applications.Process", "Applications.UpdateCustomerData", "Applications.UpdateData", "Applications.UpdateName",
		"Applications.UpdateNameAndZipCode", "Applications.Offer with force",
	}
	for _, name := range names {
		call := catalog.Calls[name]
		if call == nil {
			call = catalog.Variants[name]
		}
		_, _ = call(t.Context(), client)
	}
	assert.EqualValues(t, len(names), arrived.Load())
	assert.Zero(t, data.Load(), "requests with a DATA frame")
}
