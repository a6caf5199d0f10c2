package guarantees_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/wire"
)

func TestDo(t *testing.T) {
	var got recorded
	client := wire.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = recorded{Request: r, body: body}
		wire.Answer(http.StatusOK, `[{"n":1.10}]`)(w, r)
	})
	record, err := client.Do(t.Context(), lending.RawRequest{
		Method: "POST", Path: "/api/Report/partner-report/{partnerId}", Args: []string{catalog.Partner.String()},
		Query: url.Values{"take": {"5000"}, "b": {"2", "1"}, "none": {""}},
		Body:  catalog.Unpublished{"amount": json.Number("1.10")},
	})
	require.NoError(t, err)
	assert.Equal(t, `[{"n":1.10}]`, string(record.Raw()))
	assert.Equal(t, "POST /api/Report/partner-report/"+catalog.Partner.String()+"?b=2&b=1&take=5000\n"+
		"Accept: application/json\nAccept-Encoding: gzip\nAuthorization: Bearer test-token\n"+
		"Content-Length: 15\nContent-Type: application/json\n\n"+
		`{"amount":1.10}`, got.String())

	_, err = client.Do(t.Context(), lending.RawRequest{Method: "DELETE", Path: "/api/X", Anonymous: true})
	require.NoError(t, err)
}

// The effect decides, not the HTTP method.
func TestDoRepeatsReadsOnly(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		effect lending.Effect
		want   int
	}{{lending.Mutation, 1}, {lending.Read, 2}} {
		t.Run(fmt.Sprint(test.effect), func(t *testing.T) {
			for _, method := range []string{"GET", "POST"} {
				arrivals := 0
				client := wire.Serve(t, func(w http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					assert.JSONEq(t, `{"page":1}`, string(body))
					if arrivals++; arrivals == 1 {
						wire.Answer(http.StatusServiceUnavailable, "")(w, r)
						return
					}
					wire.Answer(http.StatusOK, "{}")(w, r)
				})
				_, err := client.Do(t.Context(), lending.RawRequest{
					Effect: test.effect, Method: method, Path: "/api/X",
					Body: catalog.Unpublished{"page": 1},
				})
				assert.Equal(t, test.want, arrivals, "%s %s", method, test.effect)
				assert.Equal(t, test.effect == lending.Read, err == nil)
			}
		})
	}
}

func TestDoRefuses(t *testing.T) {
	good := lending.RawRequest{Method: "GET", Path: "/api/Group/{a}"}
	for _, test := range []struct {
		name   string
		change func(*lending.RawRequest)
		want   string
	}{
		{"nothing", func(r *lending.RawRequest) { *r = lending.RawRequest{} }, "Method format, Path format"},
		{"lower case", func(r *lending.RawRequest) { r.Method = "get" }, "Method format"},
		{"too few args", func(r *lending.RawRequest) { r.Args = nil }, "Args format"},
		{"too many args", func(r *lending.RawRequest) { r.Args = []string{"1", "2"} }, "Args format"},
		{"an empty arg", func(r *lending.RawRequest) { r.Args = []string{""} }, "a required"},
		{"no slash", func(r *lending.RawRequest) { r.Path = "api/{a}" }, "Path format"},
		{"an address", func(r *lending.RawRequest) { r.Path = "https://evil.example/{a}" }, "Path format"},
		{"another authority", func(r *lending.RawRequest) { r.Path = "//evil.example/{a}" }, "Path format"},
		{"dots", func(r *lending.RawRequest) { r.Path = "/api/../{a}" }, "Path format"},
		{"a query", func(r *lending.RawRequest) { r.Path = "/api/{a}?ssn=hush" }, "Path format"},
		{"escapes", func(r *lending.RawRequest) { r.Path = "/api/%2e%2e/{a}" }, "Path format"},
		{"half a name", func(r *lending.RawRequest) { r.Path = "/api/{a/{b}" }, "Path format"},
		{"a name within", func(r *lending.RawRequest) { r.Path = "/api/x{a}" }, "Path format"},
		{"no name", func(r *lending.RawRequest) { r.Path = "/api/{}" }, "Path format"},
		{"a slash at its end", func(r *lending.RawRequest) { r.Path = "/api/{a}/" }, "Path format"},
		{"a hidden secret", func(r *lending.RawRequest) {
			r.Body = struct{ X lending.Secret }{lending.NewSecret("hush")}
		}, "Body unsafe"},
		{"not JSON", func(r *lending.RawRequest) { r.Body = func() {} }, "Body unsafe"},
		{"control bytes", func(r *lending.RawRequest) { r.Query = url.Values{"q": {"a\nb"}} }, "q unsafe"},
	} {
		t.Run(test.name, func(t *testing.T) {
			raw := good
			raw.Args = []string{"1"}
			test.change(&raw)
			_, err := wire.Silent(t).Do(t.Context(), raw)
			assert.Equal(t, test.want, catalog.Refused(t, err))
			assert.NotContains(t, err.Error(), "hush")
		})
	}
}

func TestDoErrors(t *testing.T) {
	client := wire.Serve(t, wire.Answer(http.StatusBadRequest, `{"errorCode":"None"}`))
	_, err := client.Do(t.Context(), lending.RawRequest{
		Method: "POST", Path: "/api/InvoiceCustomer/azAZ09-_.~/{name}",
		Args: []string{"hush"}, Query: url.Values{"q": {"hush"}},
	})
	assert.EqualError(t, err,
		"lending: POST /api/InvoiceCustomer/azAZ09-_.~/{name}: 400 Bad Request: errorCode None: rejected")
}
