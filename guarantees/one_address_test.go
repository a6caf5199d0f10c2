package guarantees_test

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
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

func TestBaseURL(t *testing.T) {
	for _, good := range []string{
		"https://lending.example", "https://lending.example/", "https://lending.example:8443/a/b/",
		"http://localhost:8080", "http://127.0.0.2", "http://[::1]:80/x", "https://lending.example/a%2Fb",
	} {
		t.Run(good, func(t *testing.T) {
			_, err := lending.New(good)
			assert.NoError(t, err)
		})
	}
	for _, test := range []struct {
		bad  string
		rule string
	}{
		{"", "must begin with https://"},
		{"lending.example", "must begin with https://"},
		{"ftp://lending.example", "must begin with https://"},
		{"https:lending.example", "needs a host"},
		{"https://", "needs a host"},
		{"http://lending.example", "must use https"},
		{"http://127.0.0.1.example", "must use https"},
		{"http://evillocalhost", "must use https"},
		{"http://localhost.example", "must use https"},
		{"http://0.0.0.0", "must use https"},
		{"https://lending.example:0", "needs a port from 1 to 65535"},
		{"https://lending.example:65536", "needs a port from 1 to 65535"},
		{"https://lending.example:", "needs a port from 1 to 65535"},
		{"https://who:hush@lending.example", "must not hold user information"},
		{"https://lending.example?key=hush", "must not hold a query"},
		{"https://lending.example?", "must not hold a query"},
		{"https://lending.example/#hush", "must not hold a fragment"},
		{"https://lending.example/#", "must not hold a fragment"},
		{"https://lending.example/a/../hush", "must not hold dot segments"},
		{"https://hush:99999x/", "is not a URL"},
		{"https://lending.example/\x7fhush", "is not a URL"},
	} {
		t.Run(test.bad, func(t *testing.T) {
			_, err := lending.New(test.bad)
			var argument *lending.ArgumentError
			require.ErrorAs(t, err, &argument)
			assert.ErrorContains(t, err, "baseURL")
			assert.ErrorContains(t, err, test.rule)
			assert.NotContains(t, err.Error(), "hush")
			assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
		})
	}
}

func TestOptionsRefuseNothing(t *testing.T) {
	for _, test := range []struct {
		name   string
		option lending.Option
	}{
		{"WithHTTPClient", lending.WithHTTPClient(nil)},
		{"WithTokenSource", lending.WithTokenSource(nil)},
		{"WithTokenStore", lending.WithTokenStore(nil)},
		{"WithCredentials", lending.WithTokenStore(lending.NewMemoryTokenStore())},
		{"WithLogger", lending.WithLogger(nil)},
		{"WithObserver", lending.WithObserver(nil, nil)},
		{"WithHeader", lending.WithHeader(nil)},
		{"WithTLS", lending.WithTLS(nil)},
		{"username", lending.WithCredentials(lending.Credentials{})},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := lending.New("https://lending.example", test.option)
			assert.ErrorContains(t, err, test.name)
		})
	}
	_, err := lending.New("https://lending.example", withToken, withToken) //nolint:gocritic // twice is the point
	assert.ErrorContains(t, err, "together with another source")
}

// A failed call captures its partial response, and nothing of the call before.
func TestCaptureResponseOfAFailure(t *testing.T) {
	for _, test := range []struct {
		name string
		sent string
		want lending.Response
	}{
		{"no answer", "", lending.Response{}},
		{
			"a cut success", "HTTP/1.1 201 Created\r\nContent-Length: 90\r\n\r\n{\"id\":",
			lending.Response{StatusCode: 201, Body: []byte(`{"id":`)},
		},
		{
			"a cut problem", "HTTP/1.1 400 Bad Request\r\nContent-Length: 90\r\n\r\n{\"a\":",
			lending.Response{StatusCode: 400, Body: []byte(`{"a":`)},
		},
		{
			"a problem", "HTTP/1.1 409 Conflict\r\nX-Correlation: c-1\r\nContent-Length: 2\r\n\r\n{}",
			lending.Response{StatusCode: 409, Header: http.Header{"X-Correlation": {"c-1"}}, Body: []byte("{}")},
		},
		{
			"a wrong shape", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
			lending.Response{StatusCode: 200, Body: []byte("[]")},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			client := wire.Serve(t, func(w http.ResponseWriter, _ *http.Request) {
				conn, _, err := http.NewResponseController(w).Hijack()
				assert.NoError(t, err)
				_, _ = io.WriteString(conn, test.sent)
				assert.NoError(t, conn.Close())
			})
			captured := lending.Response{StatusCode: 299, Body: []byte("of another call")}
			_, err := client.Applications.CreateCustomer(lending.CaptureResponse(t.Context(), &captured), fake.Ada())
			require.Error(t, err)
			assert.Equal(t, test.want.StatusCode, captured.StatusCode)
			assert.Equal(t, test.want.Header.Get("X-Correlation"), captured.Header.Get("X-Correlation"))
			assert.Equal(t, string(test.want.Body), string(captured.Body))
		})
	}
	captured := lending.Response{StatusCode: 299}
	require.Error(t, wire.Silent(t).Applications.Cancel(lending.CaptureResponse(t.Context(), &captured),
		lending.ApplicationID{}))
	assert.Equal(t, lending.Response{}, captured, "of a call that is refused before the request")
}

func second[T any](_ T, err error) error { return err }

// For the client, a caller's http.Client neither follows redirects nor keeps cookies, and is not
// changed.
func TestCallersHTTPClientIsNotChanged(t *testing.T) {
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	hc := &http.Client{Jar: jar, Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error {
		t.Error("asked about a redirect")
		return nil
	}}
	var arrivals atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrivals.Add(1)
		assert.Empty(t, r.Header.Values("Cookie"))
		http.SetCookie(w, &http.Cookie{Name: "session", Value: "x"})
		http.Redirect(w, r, "/base/path/api/again", http.StatusTemporaryRedirect)
	}))
	defer server.Close()
	address, err := url.Parse(server.URL)
	require.NoError(t, err)
	jar.SetCookies(address, []*http.Cookie{{Name: "sign-in", Value: "c"}})
	client := benchmarkClient(t, server.URL, hc)
	assert.ErrorIs(t, client.Applications.Cancel(t.Context(), catalog.Application), lending.ErrOutcomeUnknown)
	_, err = client.Applications.Status(t.Context(), catalog.Application)
	require.Error(t, err)
	assert.EqualValues(t, 2, arrivals.Load())
	assert.Nil(t, hc.Transport)
	assert.Len(t, jar.Cookies(address), 1)
}
