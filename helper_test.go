package lending_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
)

// basePath is in front of every route in these tests: a path that loses it is seen.
const basePath = "/base/path"

// serve starts a service on a real socket that answers with handler below basePath,
// fails the test on a request outside it, and returns a client of it.
func serve(t *testing.T, handler http.HandlerFunc, opts ...lending.Option) *lending.Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.EscapedPath(), basePath+"/api/") {
			t.Errorf("request outside the base path: %s", r.URL.EscapedPath())
		}
		http.StripPrefix(basePath, handler).ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	client, err := lending.New(server.URL+basePath, append([]lending.Option{lending.WithTokenSource(lending.StaticToken("test-token"))}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}

// answer is a handler that answers with a JSON body.
func answer(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}
