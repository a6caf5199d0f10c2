package ops_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/ops"
	"github.com/lendingapi/lending-go/webhook"
)

func TestActionsNeedARight(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	b.loseDocument("order-1/document")
	verdict := func(key, verdict, why string) map[string]any {
		return map[string]any{"key": key, "verdict": verdict, "why": why}
	}
	order := verdict("order-1/document", "happened", "seen")
	header := func(pairs ...string) http.Header {
		h := http.Header{"X-Person": {person}, "Content-Type": {"application/json"}}
		for i := 0; i < len(pairs); i += 2 {
			h.Set(pairs[i], pairs[i+1])
		}
		return h
	}
	for _, test := range []struct {
		name   string
		order  any
		header http.Header
		status int
	}{
		{"nobody", order, header("X-Person", ""), http.StatusForbidden},
		{"another site", order, header("Sec-Fetch-Site", "cross-site"), http.StatusForbidden},
		{"another subdomain", order, header("Sec-Fetch-Site", "same-site"), http.StatusForbidden},
		{"another origin", order, header("Origin", "https://evil.example"), http.StatusForbidden},
		{"another site through a gateway", order, header("Origin", "https://evil.example",
			"X-Forwarded-Host", "ops.example"), http.StatusForbidden},
		{"a page with a forged gateway", order, header("Origin", "https://ops.example",
			"X-Forwarded-Host", "ops.example", "Sec-Fetch-Site", "cross-site"), http.StatusForbidden},
		{"a hidden origin", order, header("Origin", "null", "X-Forwarded-Host", ""), http.StatusForbidden},
		{"a form", order, header("Content-Type", "application/x-www-form-urlencoded"), http.StatusUnsupportedMediaType},
		{"a form of text", order, header("Content-Type", "text/plain"), http.StatusUnsupportedMediaType},
		{"no order", []int{1}, header(), http.StatusBadRequest},
		{"an unknown field", map[string]any{"keys": 1}, header(), http.StatusBadRequest},
		{"an unknown verdict", verdict("order-1/document", "maybe", "a"), header(), http.StatusBadRequest},
		{"no reason", verdict("order-1/document", "happened", ""), header(), http.StatusBadRequest},
		{"an unknown key", verdict("order-2", "happened", "a"), header(), http.StatusNotFound},
		{"a browser without Sec-Fetch-Site, behind a gateway", verdict("order-2", "happened", "a"), header("Origin",
			"https://ops.example", "X-Forwarded-Host", "ops.example, 10.0.0.7"), http.StatusNotFound},
		{"the page itself, behind a gateway that replaces the Host", order, header("Origin", "https://ops.example",
			"Sec-Fetch-Site", "same-origin"), http.StatusOK},
	} {
		t.Run(test.name, func(t *testing.T) {
			status, text := b.send(http.MethodPost, "api/resolve", test.order, test.header)
			assert.Equal(t, test.status, status, text)
		})
	}
}

// A gateway that replaces the Host is told how to pass it on.
func TestGatewayWithoutTheHostIsNamed(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	_, text := b.send(http.MethodPost, "api/resume", map[string]any{}, http.Header{
		"X-Person": {person}, "Content-Type": {"application/json"}, "Origin": {"http://ops.example"},
	})
	assert.Contains(t, text, `the page of \"http://ops.example\" and has the Host \"127.0.0.1:`)
	assert.Contains(t, text, ": let the gateway pass the Host of the page on (nginx: proxy_set_header Host $http_host; "+
		"Apache: ProxyPreserveHost On) or set X-Forwarded-Host; ")
}

// A handler without Who and Show is read only.
func TestNobodyMayActByDefault(t *testing.T) {
	t.Parallel()
	b := open(t, func(o *ops.Options) { o.Who, o.Show = nil, nil })
	b.setAside(nil, event("a", 1))
	status, text := b.post("api/inboxes/web%20hooks/redrive", map[string]any{"all": true})
	require.Equal(t, http.StatusForbidden, status, text)
	status, _ = b.get("api/inboxes/web%20hooks/1")
	require.Equal(t, http.StatusForbidden, status)
	_, text = b.get("")
	assert.Contains(t, text, "Read only.")
	assert.NotContains(t, text, "data-order")
}

// Browsers keep no response, show none in a frame, and take none for a script.
func TestResponsesAreForTheReaderOnly(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/ops/", "/ops/api/health", "/ops/api/keys"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			w := httptest.NewRecorder()
			ops.Handler(ops.Options{}).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
			assert.Equal(t, "no-store", w.Header().Get("Cache-Control"))
			assert.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
			if path == "/ops/" {
				assert.Contains(t, w.Header().Get("Content-Security-Policy"), "frame-ancestors 'none'")
				assert.Equal(t, "no-referrer", w.Header().Get("Referrer-Policy"))
			}
		})
	}
}

func TestHandlerStandsBelowAnyPath(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ option, path string }{
		{"", "/ops/"}, {"/ops/", "/ops/"}, {"admin/lending", "/admin/lending/"}, {"/", "/"},
	} {
		t.Run(test.option, func(t *testing.T) {
			t.Parallel()
			handler := ops.Handler(ops.Options{Path: test.option})
			for part, kind := range map[string]string{
				"": "text/html", "page.css": "text/css", "page.js": "text/javascript", "api/health": "application/json",
			} {
				recorder := httptest.NewRecorder()
				handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, test.path+part, nil))
				assert.Equal(t, http.StatusOK, recorder.Code, test.path+part)
				assert.Contains(t, recorder.Header().Get("Content-Type"), kind)
			}
			for _, part := range []string{"api/keys", "api/key?key=a", "api/sessions", "api/inboxes/a"} {
				recorder := httptest.NewRecorder()
				handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, test.path+part, nil))
				assert.Equal(t, http.StatusNotFound, recorder.Code, "a handler without parts has no %s", part)
			}
		})
	}
}

// No path, query or order ends in a panic or in the handler's own failure.
func FuzzRoutes(f *testing.F) {
	f.Add("api/keys", "state=review&limit=0", `{}`)
	f.Add("api/key", "key=%00", `{"key":"a","verdict":"happened","why":"b","answer":{}}`)
	f.Add("api/inboxes/a/redrive", "", `{"ids":["1"],"all":true}`)
	f.Add("api/resolve", "", `{"key":"\u0000","verdict":"not_happened","why":"\n"}`)
	f.Add("api/keys", "state=in_doubt&prefix=a&after=%00", `{}`)
	f.Add("api/inboxes/a", "event=b&from=2026-11-22 15:04:05&after=-", `{}`)
	f.Add("api/inboxes/a/drop", "", `{"all":true,"before":"2026-11-22T15:04:05Z","why":"c"}`)
	handler := ops.Handler(ops.Options{
		Log: fake.Must(idempotency.NewLog(store.NewMemory(), nil)), Logger: slog.New(slog.DiscardHandler),
		Inboxes: map[string]webhook.DeadLetters{"a": webhook.NewMemoryInbox()},
		Who:     func(*http.Request) (string, bool) { return person, true },
		Show:    func(*http.Request) bool { return true },
	})
	f.Fuzz(func(t *testing.T, path, query, body string) {
		target := &url.URL{Scheme: "http", Host: "example.com", Path: "/ops/" + path, RawQuery: query}
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			request := (&http.Request{
				Method: method, URL: target, Host: "example.com", Header: http.Header{"Content-Type": {"application/json"}},
				Body: io.NopCloser(strings.NewReader(body)),
			}).WithContext(t.Context())
			recorder := httptest.NewRecorder()
			handler.ServeHTTP(recorder, request)
			if recorder.Code == http.StatusInternalServerError {
				t.Errorf("%s %s: %s", method, target, recorder.Body)
			}
		}
	})
}
