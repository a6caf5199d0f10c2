package guarantees_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
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

// TestGuardHoldsWhereNothingIsSeen holds that net/http does not repeat a mutation by itself
// even below a transport that hides from the trace of the call, where no fuse can see it.
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
