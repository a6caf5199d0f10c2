package guarantees_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/wire"
)

// An error with any body fits in a line of a log, without title, detail or message.
func FuzzProblem(f *testing.F) {
	for _, seed := range []string{
		`{}`, `null`, `[]`, `{"status":"400","title":1,"errors":{"":["hush"],"$.x":"hush"}}`,
		`{"errors":[{"field":"ssn","message":"hush","code":"c"},null,1]}`,
		`{"ERRORS":[],"errors":{"a":null},"traceId":"00-ab-cd-01"}`,
		"\xEF\xBB\xBF" + `{"errorCode":"a b"}`, `{"errors":[[[[{}]]]]}`,
		`{"detail":"hush","instance":"/hush","errorCode":"\u0000"}`,
	} {
		f.Add([]byte(seed), "hush, 123-45-6789")
	}
	f.Add([]byte(`{"errors":[`+strings.Repeat(`{"field":"ssn","code":"c"},`, 1000)+`{}]}`), "hush")
	f.Fuzz(func(t *testing.T, body []byte, value string) {
		problem := problemIn(t, body)
		if problem == nil {
			return
		}
		text := problem.String()
		assert.NotContains(t, text, "\n")
		assert.False(t, strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }), "%q", text)
		assert.LessOrEqual(t, len(text), 8<<10)
		problem.Title, problem.Detail, problem.Instance = value, value, value
		for i := range problem.Errors {
			problem.Errors[i].Message = value
		}
		assert.Equal(t, text, problem.String(), "depends on what can echo")
	})
}

// An address is kept whole or refused, and never quoted.
func FuzzBaseURL(f *testing.F) {
	for _, seed := range []string{
		"https://lending.example", "https://lending.example/a/b/", "http://127.0.0.1:8080", "http://localhost/x",
		"http://[::1]:1/",
		"http://lending.example", "https://user:c4n4ry@lending.example", "https://lending.example/?k=c4n4ry",
		"https://lending.example/#c4n4ry", "c4n4ry",
		"https://", "https:c4n4ry", "//lending.example", "https://lending.example/a/../b",
		"https://lending.example/a%2Fb", "https://lending.example/%2e%2e/b",
		"https://[::1%25eth0]/", "https://lending.example:99999999/", "https://lending.example/ü",
		"HTTPS://LENDING.EXAMPLE", "https://a\\b/", "https://lending.example//x", "http://localhost.evil.example",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, base string) {
		var sent *url.URL
		client, err := lending.New(base, withToken, withTransport(func(r *http.Request) (*http.Response, error) {
			sent = r.URL
			return wire.Reply(200, `"Open"`)(r)
		}))
		if err != nil {
			if len(base) > 12 {
				assert.NotContains(t, err.Error(), base)
			}
			assert.NotContains(t, err.Error(), "c4n4ry")
			return
		}
		_, err = client.Applications.Status(t.Context(), catalog.Application)
		require.NoError(t, err)
		given, err := url.Parse(base)
		require.NoError(t, err)
		assert.Equal(t, strings.ToLower(given.Scheme), sent.Scheme)
		assert.Equal(t, given.Host, sent.Host)
		assert.Nil(t, sent.User)
		assert.Empty(t, sent.RawQuery+sent.Fragment)
		want := strings.TrimRight(given.EscapedPath(), "/") + "/api/Application/application-status/" +
			catalog.Application.String()
		assert.Equal(t, want, sent.EscapedPath())
		host := sent.Hostname()
		assert.True(t, sent.Scheme == "https" || strings.EqualFold(host, "localhost") ||
			strings.HasPrefix(host, "127.") || strings.Contains(host, ":"), "plain http to %s", host)
	})
}

// An argument stays a single segment of the path, or is refused and not quoted.
func FuzzPath(f *testing.F) {
	for _, seed := range []string{
		"acc-1", "", ".", "..", "a/b", `a\b`, "%2e%2e", "%2F", "a?b", "a#b", "a b", "ü",
		"\x00", "a\r\nb", "\xff", ";x=1", "a:b", "//", "...", "+", "&=", "\u2028",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, account string) {
		var sent *url.URL
		client := wire.NewClient(t, "https://lending.example/pre%2Ffix", withToken,
			withTransport(func(r *http.Request) (*http.Response, error) {
				sent = r.URL
				return wire.Reply(200, "")(r)
			}))
		err := client.Approval.SetPrimaryBankAccount(t.Context(), catalog.Application, account)
		if err != nil {
			var argument *lending.ArgumentError
			require.ErrorAs(t, err, &argument)
			assert.Nil(t, sent)
			if len(account) > 24 {
				assert.NotContains(t, err.Error(), account)
			}
			return
		}
		prefix := "/pre%2Ffix/api/ApplicationApproval/set-primary-bank-account/" + catalog.Application.String() + "/"
		segment, ok := strings.CutPrefix(sent.EscapedPath(), prefix)
		require.True(t, ok, sent.EscapedPath())
		assert.NotContains(t, []string{"", ".", ".."}, segment, "servers resolve it")
		plain, err := url.PathUnescape(segment)
		require.NoError(t, err)
		assert.Equal(t, account, plain)
		assert.False(t, strings.ContainsAny(plain, "/\\\x00\r\n"), "servers split at it: %q", plain)
		again, err := url.Parse(sent.String())
		require.NoError(t, err)
		assert.Equal(t, sent.EscapedPath(), again.EscapedPath())
		assert.Equal(t, "https://lending.example", again.Scheme+"://"+again.Host)
	})
}
