// Package wire starts services on real sockets for tests, and makes clients of them.
package wire

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lendingapi/lending-go"
)

// BasePath comes before every route of these services, so a client that loses the base path
// fails.
const BasePath = "/base/path"

// Listen starts a service in which handler answers all requests below BasePath, and returns its
// base URL. A request outside BasePath fails the test.
func Listen(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.EscapedPath(), BasePath+"/api/") {
			t.Errorf("request outside the base path: %s", r.URL.EscapedPath())
		}
		http.StripPrefix(BasePath, handler).ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL + BasePath
}

// ListenRaw accepts connections, passes each to handle, closes the connection afterwards and
// returns host and port.
func ListenRaw(tb testing.TB, handle func(net.Conn)) string {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer conn.Close()
				handle(conn)
			})
		}
	})
	tb.Cleanup(serving.Wait)
	tb.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String()
}

// Serve calls Listen and returns a client with a token.
func Serve(t *testing.T, handler http.HandlerFunc, opts ...lending.Option) *lending.Client {
	t.Helper()
	return NewClient(t, Listen(t, handler), append(opts, lending.WithTokenSource(lending.StaticToken("test-token")))...)
}

// InMemory returns a client with a token whose requests go to send.
func InMemory(tb testing.TB, send RoundTripper, opts ...lending.Option) *lending.Client {
	tb.Helper()
	return NewClient(tb, "https://lending.example", append(opts, lending.WithTokenSource(lending.StaticToken("test-token")),
		lending.WithHTTPClient(&http.Client{Transport: send}))...)
}

// NewClient returns a client and closes the client when the test ends.
func NewClient(tb testing.TB, baseURL string, opts ...lending.Option) *lending.Client {
	tb.Helper()
	client, err := lending.New(baseURL, opts...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(client.Close)
	return client
}

// Answer returns a handler with a JSON response.
func Answer(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

// Plain returns a handler with status 200 and a body of this content type.
func Plain(contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write([]byte(body))
	}
}

// RoundTripper makes an http.RoundTripper from a function.
type RoundTripper func(*http.Request) (*http.Response, error)

// RoundTrip calls f.
func (f RoundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Silent returns a client whose service fails the test on any call.
func Silent(t *testing.T) *lending.Client {
	t.Helper()
	return Serve(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s %s arrived", r.Method, r.URL.Path) })
}

// Reply returns a transport that answers each request with a JSON body. The values of header are
// names and values in turn.
func Reply(status int, body string, header ...string) RoundTripper {
	return func(*http.Request) (*http.Response, error) {
		h := http.Header{"Content-Type": {"application/json"}}
		for i := 0; i < len(header); i += 2 {
			h.Set(header[i], header[i+1])
		}
		return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body))}, nil
	}
}

// RawReply returns the bytes of an HTTP/1 response.
func RawReply(status int, header map[string]string, body string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\n", status, http.StatusText(status))
	if header["Content-Type"] == "" {
		b.WriteString("Content-Type: application/json; charset=utf-8\r\n")
	}
	for name, value := range header {
		b.WriteString(name + ": " + value + "\r\n")
	}
	if status != http.StatusNoContent {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(body))
	}
	return b.String() + "\r\n" + body
}

// Renewing is a token source that returns another token after each rejection.
type Renewing struct{ Refused atomic.Int32 }

// Token implements lending.TokenSource.
func (s *Renewing) Token(context.Context) (lending.Token, error) {
	return lending.Token{Value: lending.NewSecret(fmt.Sprint("token-", s.Refused.Load()))}, nil
}

// Invalidate counts the rejection.
func (s *Renewing) Invalidate(lending.Token) { s.Refused.Add(1) }

// Attempts is the option to call ended at the end of each attempt, with the context of the call.
func Attempts(ended func(context.Context, lending.Call)) lending.Option {
	return lending.WithObserver(nil, func(ctx context.Context, _ lending.Call) (context.Context, func(lending.Call)) {
		return ctx, func(attempt lending.Call) { ended(ctx, attempt) }
	})
}
