package guarantees_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/wire"
)

// A mutation would be stopped on its way to the other place: a read shows that there is none.
func TestRedirectIsNotFollowed(t *testing.T) {
	for _, status := range []int{http.StatusFound, http.StatusTemporaryRedirect} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			var arrivals atomic.Int32
			client := wire.Serve(t, func(w http.ResponseWriter, _ *http.Request) {
				arrivals.Add(1)
				w.Header().Set("Location", wire.BasePath+"/api/elsewhere")
				w.WriteHeader(status)
			})
			_, err := client.Applications.Status(t.Context(), catalog.Application)
			var failed *lending.Error
			require.ErrorAs(t, err, &failed)
			assert.Equal(t, status, failed.StatusCode)
			assert.EqualValues(t, 1, arrivals.Load())
		})
	}
}

// net/http does not repeat a mutation by itself even below a transport that hides from the trace of
// the call, where no fuse can see it.
func TestGuardHoldsWhereNothingIsSeen(t *testing.T) {
	var arrivals atomic.Int32
	type seen struct{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if before := r.Context().Value(seen{}).(*atomic.Int32).Add(1); before == 1 && r.URL.Path == "/" {
			return // leaves the connection open
		}
		arrivals.Add(1)
		panic(http.ErrAbortHandler) // after it was executed
	}))
	server.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		return context.WithValue(ctx, seen{}, new(atomic.Int32))
	}
	server.Start()
	defer server.Close()
	below := &http.Transport{}
	defer below.CloseIdleConnections()
	hiding := wire.RoundTripper(func(r *http.Request) (*http.Response, error) {
		return below.RoundTrip(r.WithContext(t.Context()))
	})
	client := wire.NewClient(t, server.URL, lending.WithTokenSource(lending.StaticToken("test-token")),
		lending.WithHTTPClient(&http.Client{Transport: hiding}))
	for _, test := range []struct {
		name    string
		command func() error
	}{
		{"a GET", func() error { return second(client.Applications.Process(t.Context(), catalog.Application)) }},
		{"a POST without a body", func() error { return client.Applications.Cancel(t.Context(), catalog.Application) }},
		{"a POST with a small body", func() error {
			return second(client.Applications.CreateCustomer(t.Context(),
				catalog.User()))
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			arrivals.Store(0)
			resp, err := (&http.Client{Transport: below}).Get(server.URL) // a connection to be reused
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.ErrorIs(t, test.command(), lending.ErrOutcomeUnknown)
			assert.EqualValues(t, 1, arrivals.Load())
		})
	}
}

// TestGuardHoldsOverHTTP2WhereNothingIsSeen is the same for HTTP/2, whose streams net/http repeats
// after some resets. A POST without a body has no guard there: only the trace of the call stops its
// repetition.
func TestGuardHoldsOverHTTP2WhereNothingIsSeen(t *testing.T) {
	for _, then := range []string{"reset-protocol", "reset-refused", "goaway-before"} {
		for _, name := range []string{"Applications.Process", "Applications.CreateCustomer"} { // a GET, and a body
			t.Run(then+" "+name, func(t *testing.T) {
				service := newFaultServer(t, fault{Client: "h2c", On: "first", Then: then}, "{}")
				defer service.Close()
				below := &http.Transport{Protocols: new(http.Protocols)}
				below.Protocols.SetUnencryptedHTTP2(true)
				defer below.CloseIdleConnections()
				hiding := wire.RoundTripper(func(r *http.Request) (*http.Response, error) {
					return below.RoundTrip(r.WithContext(t.Context()))
				})
				client := wire.NewClient(t, service.URL(), lending.WithHTTPClient(&http.Client{Transport: hiding}),
					lending.WithTokenSource(lending.StaticToken("test-token")))
				require.ErrorIs(t, second(catalog.Calls[name](t.Context(), client)), lending.ErrOutcomeUnknown)
				assert.EqualValues(t, 1, service.arrivals.Load())
			})
		}
	}
}

// TestClientSpeaksHTTP2IfItCan counts the connections of a service. Over HTTP/2 all calls share one
// after the first mutation, except large documents.
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
			connections, got := map[string]int{}, []string{}
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
			server.StartTLS()
			defer server.Close()
			client := wire.NewClient(t, server.URL, append(test.opts, lending.WithTokenSource(lending.StaticToken("t")))...)
			for _, c := range calls {
				require.NoError(t, c.call(t.Context(), client), c.name)
			}
			assert.Equal(t, test.want, got)
		})
	}
}
