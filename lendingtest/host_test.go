package lendingtest_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/lendingapi/lending-go/lendingtest"
)

// TestServiceIsAsStrictAsTheHost sends requests that ASP.NET Core refuses, or answers in another form.
func TestServiceIsAsStrictAsTheHost(t *testing.T) {
	t.Parallel()
	const (
		create, status = "POST Application/create-customer", "GET Application/application-status/{application}"
		quick, created = "POST Application/quick-test/{application}", `200 JSON "Application Created"`
		text           = "200 text/plain; charset=utf-8 Application Created"
		upload         = "POST Application/submit-bankstatement-document/{application}?fileName=a"
	)
	long := func(n int) string { return strings.Repeat("x", n) }
	for _, test := range []struct{ name, header, request, body, want string }{ // want: status, content type and body
		{"byte order mark", "", create, "\xef\xbb\xbf" + ann, `400 JSON .*InvalidJson.*`},
		{"invalid UTF-8", "", create, strings.Replace(ann, "Ann", "\xff", 1), `400 JSON .*InvalidJson.*`},
		{"address", "", status + "?x=" + long(8103), "", `414  `},
		{"address within the limit", "", status + "?x=" + long(8102), "", created},
		{"address of no route", "", "GET " + long(9000), "", `414  `},
		{"head", "X-Long: " + long(33000), status, "", `431  `},
		{"head within the limit", "X-Long: " + long(32000), status, "", created},
		{"text without Accept", "Accept:", status, "", text},
		{"text for anything", "Accept: */*", status, "", text},
		{"text for axios", "Accept: application/json, text/plain, */*", status, "", text},
		{"JSON for application", "Accept: application/*;q=0.5", status, "", created},
		{"JSON of a boolean", "Accept: */*", "GET Loan/is-loan-closed/{loan}", "", `200 JSON false`},
		{"no content type, required", "Content-Type:", create, ann, `415 .*`},
		{"no content type, optional", "", quick, "", `415 .*`},
		{"no content type, document", "Content-Type:", upload, file(1), `415 .*`},
		{"null, optional", "", quick, "null", `200 .*false`},
		{"no content type, no body", "", "POST Application/cancel-application/{application}", "", `200  `},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := serverRig(t)
			if name, value, ok := strings.Cut(test.header, ":"); ok {
				r.header[name] = []string{strings.TrimSpace(value)}
			}
			application := r.AddApplication(lendingtest.Application{})
			fill := strings.NewReplacer("{loan}", r.AddLoan(lendingtest.Loan{}).ID, "{application}", application.ID)
			want := strings.Replace(test.want, "JSON ", "application/json; charset=utf-8 ", 1)
			assert.Regexp(t, "^"+want+"$", r.request(fill.Replace(test.request)+" "+test.body).shown())
		})
	}
}

// A date with a zone becomes a time of the host, as with ASP.NET Core before 5.0.
func TestHostConvertsADateWithAZone(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, sent, want string
		zone             *time.Location
	}{
		{"UTC, by default", "1990-02-28T00:00:00Z", "1990-02-27T16:00:00", nil},
		{"in the zone of the host", "1990-02-28T00:00:00-08:00", "1990-02-28T00:00:00", nil},
		{"without a zone", "1990-02-28T00:00:00", "1990-02-28T00:00:00", nil},
		{"a day", "1990-02-28", "1990-02-28T00:00:00", nil},
		{"east", "1990-02-28T00:00:00Z", "1990-02-28T02:00:00", time.FixedZone("", 2*60*60)},
		{"UTC", "1990-02-28T00:00:00Z", "1990-02-28T00:00:00", time.UTC},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var opts []lendingtest.Option
			if test.zone != nil {
				opts = append(opts, lendingtest.WithHostZone(test.zone))
			}
			r := newRig(t, opts...)
			id := r.application()
			sent := "?name=x&zipcode=1&startDate=" + url.QueryEscape(test.sent)
			r.get("/api/Application/update-application-data/" + id + sent).ok()
			assert.Equal(t, test.want+".0000000", r.get("/api/Application/get-application/" + id).object()["startDate"])
		})
	}
}

// The refusals have the forms of a framework, and fields the names of C#. The service's own verdicts keep its record.
func TestRefusalsHaveTheFormsOfTheFramework(t *testing.T) {
	t.Parallel()
	const (
		create, loan = "POST Application/create-customer ", "GET Loan/get-loan/"
		email        = "GET Customer/get-customer-by-email?email=x@example.com"
		record       = `\{"status":404,"title":"Not Found","traceId":"[0-9-]+","type":"https://.*-15\.5\.5"\}`
		upload       = "POST Application/submit-bankstatement-document/{application}?fileName=a 7"
		long         = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
		own          = `400 application/json .*"errorCode":"InvalidDocument".*"errors":\[\].*`
	)
	for _, test := range []struct{ framework, name, request, want string }{ // want: status, content type and body
		{"2.3", "missing", loan + unknownID, `404  `},
		{"2.3", "missing e-mail address", email, `404  `},
		{"2.3", "unknown path", "GET x", `404  `},
		{"2.3", "forbidden", "GET Webhook/get-all-subscriptions", `403  `},
		{"2.3", "no content type", create, `415  `},
		{"2.3", "field", create + strings.Replace(ann, "ann@", "", 1), `400 application/json \{"Email":\[".*"\]\}`},
		{"2.3", "fields in a list", "POST ApplicationBulk/create-customers [{}]", `400 .*"\[0\]\.Email":.*`},
		{"2.3", "parameter", loan + "7", `400 application/json \{"loanId":\[".*"\]\}`},
		{"2.3", "of a POST", "POST Application/quick-test/7 {}", `400 application/json \{"applicationId":\[".*"\]\}`},
		{"2.3", "of the query", "POST Application/create-application?sendLink=x {}", `400 .*"sendLink":\[.*`},
		{"2.3", "two of a field", create + `{"email":"` + long + `"}`, `400 .*"Email":\[".*","[^\]]*"\].*`},
		{"2.3", "type in the body", create + `{"email":7}`, `400 application/json \{"email":\[".*"\]\}`},
		{"2.3", "no JSON", create + `{`, `400 application/json \{"":\[".*"\]\}`},
		{"2.3", "verdict of the service", upload, own},
		{"10", "missing", loan + unknownID, `404 application/problem\+json ` + record},
		{"10", "missing e-mail address", email, `404 application/problem\+json ` + record},
		{"10", "unknown path", "GET x", `404  `},
		{"10", "forbidden", "GET Webhook/get-all-subscriptions", `403  `},
		{"10", "no content type", create, `415 application/problem\+json .*-15\.5\.16"\}`},
		{"10", "field", create + "{}", `400 application/problem\+json \{"errors":\{"Email":\[".*"\],.*\},"status":400,.*\}`},
		{"10", "verdict of the service", upload, own},
		{"", "missing", loan + unknownID, `404 application/json; charset=utf-8 .*"errorCode":"LoanNotFound".*`},
	} {
		t.Run(test.framework+" "+test.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, lendingtest.WithFramework(test.framework))
			application := r.AddApplication(lendingtest.Application{}).ID
			request := strings.Replace(test.request, "{application}", application, 1)
			assert.Regexp(t, "^"+test.want+"$", r.request(request).shown())
		})
	}
	stranger := newRig(t, lendingtest.WithFramework("2.3")).as("").get("/api/Webhook/get-subscription")
	assert.Equal(t, []string{"401  ", "Bearer"}, []string{stranger.shown(), stranger.header.Get("WWW-Authenticate")})
	assert.PanicsWithValue(t, `lendingtest: no framework "5"; WithFramework takes 2.3 and 10`,
		func() { lendingtest.New(lendingtest.WithFramework("5")) })
}

// A stranger is refused before the service asks for the body, or reads it.
func TestStrangerIsRefusedBeforeTheBody(t *testing.T) {
	t.Parallel()
	for _, header := range []string{"Content-Length: 1000", "Content-Length: 1000000\r\nExpect: 100-continue"} {
		t.Run(header, func(t *testing.T) {
			t.Parallel()
			status, _, rest := serverRig(t).raw("POST /api/Application/create-customer HTTP/1.1\r\nHost: x\r\n" +
				"Content-Type: application/json\r\n" + header + "\r\n\r\n")
			assert.Equal(t, http.StatusUnauthorized, status)
			if strings.Contains(header, "Expect") { // a body that the service did not ask for does not come
				_, err := io.Copy(io.Discard, rest)
				assert.NoError(t, err)
			}
		})
	}
}
