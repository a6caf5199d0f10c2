package guarantees_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/webhook"
)

// exchange is a response of a host as it went over the wire: see testdata/README.md.
type exchange struct {
	Name, Form, Means string
	Request           struct{ Method, Path string }
	Response          struct {
		Status     int
		Headers    map[string]string
		Body       string
		BodyBase64 []byte
		Closed     bool
	}
}

// recording has the responses, and the webhooks.
type recording struct {
	Exchanges []exchange
	Webhooks  []struct {
		Name, Secret string
		Request      struct {
			Headers map[string]string
			Body    string
		}
	}
}

func recordings(t *testing.T) (all recording) {
	t.Helper()
	const file = "../testdata/host/exchanges.json"
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &all), file)
	require.NotEmpty(t, all.Exchanges, file)
	require.NotEmpty(t, all.Webhooks, file)
	return all
}

func (e exchange) body() string { return cmp.Or(string(e.Response.BodyBase64), e.Response.Body) }

// bytes returns the response with its head as recorded. A chunked body comes in two chunks.
func (e exchange) bytes() string {
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\n", e.Response.Status, http.StatusText(e.Response.Status))
	for _, name := range slices.Sorted(maps.Keys(e.Response.Headers)) {
		fmt.Fprintf(&b, "%s: %s\r\n", name, e.Response.Headers[name])
	}
	b.WriteString("\r\n")
	body := e.body()
	if e.Response.Headers["Transfer-Encoding"] != "chunked" {
		return b.String() + body
	}
	for _, chunk := range []string{body[:1], body[1:]} {
		fmt.Fprintf(&b, "%x\r\n%s\r\n", len(chunk), chunk)
	}
	return b.String() + "0\r\n\r\n"
}

// play serves the response to each request, and returns the address.
func (e exchange) play(t *testing.T) string {
	t.Helper()
	return "http://" + wire.ListenRaw(t, func(conn net.Conn) {
		for in := bufio.NewReader(conn); ; {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			if _, err = io.WriteString(conn, e.bytes()); err != nil || e.Response.Closed {
				return
			}
		}
	})
}

// method returns the method of the route, or a mutation without a response body for another path.
func (e exchange) method(routes map[string]catalog.Route) string {
	path, _, _ := strings.Cut(e.Request.Path, "?")
	for name, route := range routes {
		pattern := regexp.MustCompile(`\{\w+\}`).ReplaceAllString(route.Path, "[^/]*")
		if route.Method == e.Request.Method && regexp.MustCompile("^"+pattern+"$").MatchString(path) {
			return name
		}
	}
	return "Applications.Cancel"
}

// TestResponsesOfTheHost plays each recorded response to the method of its route. Means has the outcome, and
// what else the error must say.
func TestResponsesOfTheHost(t *testing.T) {
	t.Parallel()
	routes := catalog.Routes(t)
	sentinels := map[string]error{
		"ErrUnauthorized": lending.ErrUnauthorized, "ErrForbidden": lending.ErrForbidden,
		"ErrRateLimited": lending.ErrRateLimited,
	}
	for _, e := range recordings(t).Exchanges {
		t.Run(e.Form+": "+e.Name, func(t *testing.T) {
			t.Parallel()
			name := e.method(routes)
			var logged bytes.Buffer
			logger := slog.New(slog.NewJSONHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
			client := wire.NewClient(t, e.play(t), withToken, lending.WithLogger(logger))
			result, err := catalog.Calls[name](t.Context(), client)
			assert.NotEmpty(t, logged.String())
			assert.NotContains(t, logged.String(), `\n`, "a line of a log has no break")
			outcome, _, _ := strings.Cut(strings.NewReplacer(";", ",", ":", ",", " for", ",").Replace(e.Means), ",")
			require.Equal(t, outcome, lending.OutcomeOf(err).String(), "%s: %v", name, err)
			assert.Equal(t, strings.HasSuffix(e.Means, ", IsNotFound"), lending.IsNotFound(err), "%v", err)
			for text, sentinel := range sentinels {
				assert.Equal(t, strings.Contains(e.Means, text), errors.Is(err, sentinel), "%v", err)
			}
			if err == nil {
				e.hasValue(t, result)
				return
			}
			assert.NotContains(t, err.Error(), "\n")
			failed, ok := errors.AsType[*lending.Error](err)
			require.True(t, ok)
			assert.Equal(t, strings.Contains(e.Means, "RetryAfter 1h0m0s"), failed.RetryAfter == time.Hour)
			if _, fields, ok := strings.Cut(e.Means, "field"); ok {
				var named []string
				for _, f := range failed.Problem.Errors {
					named = append(named, f.Field)
				}
				for field := range strings.SplitSeq(strings.TrimSuffix(strings.TrimPrefix(fields, "s"), " …"), ",") {
					assert.Contains(t, named, strings.TrimSpace(field))
				}
			}
		})
	}
}

// TestWebhookOfTheHost delivers each recorded webhook byte for byte.
func TestWebhookOfTheHost(t *testing.T) {
	t.Parallel()
	for _, w := range recordings(t).Webhooks {
		t.Run(w.Name, func(t *testing.T) {
			t.Parallel()
			var got *webhook.Event
			receiver, err := webhook.NewReceiver(webhook.SignedWith(lending.NewSecret(w.Secret)),
				func(_ context.Context, event *webhook.Event) error { got = event; return nil }, nil)
			require.NoError(t, err)
			for _, test := range []struct {
				body   string
				status int
			}{{w.Request.Body + " ", http.StatusUnauthorized}, {w.Request.Body, http.StatusNoContent}} {
				request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/webhooks", strings.NewReader(test.body))
				for name, value := range w.Request.Headers {
					request.Header.Set(name, value)
				}
				response := httptest.NewRecorder()
				receiver.ServeHTTP(response, request)
				assert.Equal(t, test.status, response.Code)
			}
			var sent struct {
				WebhookEvent    lending.EventName
				Data            json.RawMessage
				CreationTimeUTC time.Time
			}
			require.NoError(t, json.Unmarshal([]byte(w.Request.Body), &sent))
			assert.Equal(t, sent.WebhookEvent, got.Name)
			assert.Equal(t, string(sent.Data), string(got.Data.Raw()))
			assert.Equal(t, sent.CreationTimeUTC, got.Created)
		})
	}
}

// hasValue compares a result with the body, as the text of its JSON.
func (e exchange) hasValue(t *testing.T, result any) {
	t.Helper()
	switch result := result.(type) {
	case interface{ Raw() json.RawMessage }:
		assert.Equal(t, e.body(), string(result.Raw()))
	case lending.Secret:
		assert.Equal(t, strings.Trim(e.body(), `"`), result.Reveal())
	case string:
		assert.Equal(t, "Created", result) // of each recorded status
	case fmt.Stringer:
		assert.Contains(t, e.body(), result.String())
	case bool:
		assert.Equal(t, e.body(), fmt.Sprint(result))
	}
}
