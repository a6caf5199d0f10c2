package promises_test

import (
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
)

// basePath is in front of every route in these tests: a path that loses it is seen.
const basePath = "/base/path"

// TestMain holds that the tests together leave no goroutine behind. Fuzzing does: one that
// waits for signals.
func TestMain(m *testing.M) {
	before := runtime.NumGoroutine()
	code := m.Run()
	for start := time.Now(); code == 0 && runtime.NumGoroutine() > before && flag.Lookup("test.fuzz").Value.String() == ""; <-time.After(10 * time.Millisecond) {
		if time.Since(start) > 10*time.Second {
			fmt.Fprintf(os.Stderr, "goroutines left behind:\n%s\n", goroutines())
			code = 1
		}
	}
	os.Exit(code)
}

// listen starts a service on a real socket that answers with handler below basePath
// and fails the test on a request outside it. It returns the service's address.
func listen(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.EscapedPath(), basePath+"/api/") {
			t.Errorf("request outside the base path: %s", r.URL.EscapedPath())
		}
		http.StripPrefix(basePath, handler).ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL + basePath
}

// listenRaw accepts connections on a real socket, hands each to handle and closes it. It
// returns the address.
func listenRaw(t *testing.T, handle func(net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
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
	t.Cleanup(serving.Wait)
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String()
}

// serve is listen, and a client with a token.
func serve(t *testing.T, handler http.HandlerFunc, opts ...lending.Option) *lending.Client {
	t.Helper()
	return newClient(t, listen(t, handler), append(opts, lending.WithTokenSource(lending.StaticToken("test-token")))...)
}

func newClient(t *testing.T, baseURL string, opts ...lending.Option) *lending.Client {
	t.Helper()
	client, err := lending.New(baseURL, opts...)
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

// afterAll is a handler that answers as handle then does, and not before it has the whole
// request: an earlier answer accepts no document.
func afterAll(handle *http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		(*handle)(w, r)
	}
}

// plain is a handler that answers with 200 and a body of another type.
func plain(contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write([]byte(body))
	}
}

// elapse lets d go by in a bubble of synctest, where time is fake and nobody waits.
func elapse(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // see above

// quietLog keeps a server's complaints about its clients out of the output.
var quietLog = log.New(io.Discard, "", 0)

// goroutines returns the stacks of all goroutines.
func goroutines() string {
	text := make([]byte, 4<<20)
	return string(text[:runtime.Stack(text, true)])
}
