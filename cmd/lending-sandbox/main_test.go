package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/internal/test/golden"
	"github.com/lendingapi/lending-go/internal/test/leak"
	"github.com/lendingapi/lending-go/lendingtest"
)

func TestMain(m *testing.M) { leak.Main(m) }

// sandbox is a running sandbox, seen from outside.
type sandbox struct {
	t      *testing.T
	url    string
	token  string
	client *http.Client
	out    *output
	stop   func() error
}

// output keeps the printed text and sends the address of its first line.
type output struct {
	mu      sync.Mutex
	text    bytes.Buffer
	address chan string
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	isFirst := o.text.Len() == 0
	n, err := o.text.Write(b)
	if isFirst {
		first, _, _ := strings.Cut(string(b), "\n")
		o.address <- strings.TrimPrefix(first, "The sandbox is at ")
	}
	return n, err
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func start(t *testing.T, args ...string) *sandbox {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, ended := &output{address: make(chan string, 1)}, make(chan error, 1)
	noon := lendingtest.WithClock(func() time.Time { return time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC) })
	go func() { ended <- run(ctx, append([]string{"-addr", "127.0.0.1:0", "-seed", "1"}, args...), out, noon) }()
	s := &sandbox{t: t, out: out, client: &http.Client{Transport: &http.Transport{}}}
	select {
	case url := <-out.address:
		s.url = strings.TrimSuffix(url, "/")
	case err := <-ended:
		t.Fatal("it did not start:", err)
	}
	s.stop = func() error {
		cancel()
		err := <-ended
		ended <- nil // for a second call
		s.client.CloseIdleConnections()
		return err
	}
	t.Cleanup(func() { _ = s.stop() })
	return s
}

// do sends a request with header lines such as "Host example.com".
func (s *sandbox) do(method, path, body string, header ...string) (int, http.Header, string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	require.NoError(s.t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	if s.token != "" {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}
	for _, line := range header {
		name, value, _ := strings.Cut(line, " ")
		if req.Header.Set(name, value); name == "Host" {
			req.Host = value
		}
	}
	resp, err := s.client.Do(req)
	require.NoError(s.t, err)
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	return resp.StatusCode, resp.Header, string(answer)
}

// lines are the header lines of a test.
func lines(header string) []string {
	return strings.FieldsFunc(header, func(r rune) bool { return r == '|' })
}

// post sends a body to a route and decodes the answer into result.
func (s *sandbox) post(path, body string, result any) {
	s.t.Helper()
	status, _, answer := s.do(http.MethodPost, "/api/"+path, body)
	require.Equal(s.t, http.StatusOK, status, answer)
	if result != nil {
		require.NoError(s.t, json.Unmarshal([]byte(answer), result))
	}
}

// page waits for a text on the page.
func (s *sandbox) page(want string) (html string) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		_, _, html = s.do(http.MethodGet, "/", "")
		return strings.Contains(html, want)
	}, 10*time.Second, 20*time.Millisecond, want)
	return html
}

// application creates a customer and his application.
func (s *sandbox) application(name string) (customerID, applicationID string) {
	s.t.Helper()
	var customer struct{ ID string }
	s.post("Application/create-customer", newCustomer, &customer)
	s.post("Application/create-application?sendLink=true",
		`{"customerId":"`+customer.ID+`","businessName":"`+name+`"}`, &applicationID)
	return customer.ID, applicationID
}

const (
	device  = `,"trustedDeviceToken":"` + lendingtest.TrustedDeviceToken + `"`
	partner = "partnerId=" + lendingtest.PartnerID
)

func (s *sandbox) signIn(more string) {
	s.t.Helper()
	var user struct{ Token string }
	s.post("Authenication/login", `{"username":"`+lendingtest.Username+`","password":"`+lendingtest.Password+`"`+more+
		`}`, &user)
	s.token = user.Token
}

// A journey from sign-in to a webhook, followed on the page and in the log.
func TestSandbox(t *testing.T) {
	t.Parallel()
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer receiver.Close()
	s := start(t)
	s.page("None yet")
	s.page("0 messages sent, 0 customers, 0 applications, 0 loans, 0 webhooks posted")

	s.signIn("")
	require.Empty(t, s.token)
	_, _, html := s.do(http.MethodGet, "/", "")
	code := regexp.MustCompile(`class="code">(\d{6})<`).FindStringSubmatch(html)
	require.Len(t, code, 2, "the code is on the page: %s", html)
	var user struct{ Token string }
	s.post("Authenication/validate-two-factor", `{"username":"`+lendingtest.Username+`","code":"`+code[1]+`"}`, &user)
	s.token = user.Token

	s.post("Webhook/register?"+partner, `{"webhookUri":"`+receiver.URL+`","webhooks":["WB_Application_Created"]}`, nil)
	_, application := s.application(`<script>\r\ndata: Lovelace & Sons`)
	status, _, _ := s.do(http.MethodGet, "/api/Application/application-status/secret-id?ssn=123-45-6789", "")
	require.Equal(t, http.StatusBadRequest, status)
	status, _, _ = s.do(http.MethodGet, "/api/Application/no-such-route?ssn=123-45-6789", "")
	require.Equal(t, http.StatusNotFound, status)
	assert.Contains(t, s.page(application), "&lt;script&gt;\r\ndata: Lovelace &amp; Sons",
		"as it was, and escaped")
	assert.Contains(t, s.page("application-link"), "two-factor")
	s.page("WB_Application_Created")
	s.page("GET, no route: 404, not executed")

	status, header, page := s.do(http.MethodGet, "/", "")
	require.Equal(t, http.StatusOK, status)
	assert.Contains(t, header.Get("Content-Security-Policy"), "default-src 'none'")
	own := strings.NewReplacer(s.url, "http://SANDBOX", receiver.URL, "http://RECEIVER", "\r", "(CR)")
	golden.Check(t, "testdata/page.golden.html", own.Replace(page))

	require.NoError(t, s.stop())
	receiver.Close()
	golden.Check(t, "testdata/output.golden", own.Replace(s.out.String()))
	for _, secret := range []string{"123-45", "secret-id", "Analytical", code[1], s.token} {
		assert.NotContains(t, s.out.String(), secret)
	}
}

func TestOtherOrigins(t *testing.T) {
	s := start(t, "-origin", "http://localhost:3000")
	const own, other = "http://localhost:3000", "Origin http://evil.example"
	for _, test := range []struct {
		name, request, header string
		status                int
		allowed               string
	}{
		{"a name of somebody else's for this machine", "GET /", "Host evil.example:80", 421, ""},
		{"the same for the API", "GET /api/x", "Host evil.example", 421, ""},
		{"localhost", "GET /", "Host localhost:1", 200, ""},
		{"IPv6", "GET /", "Host [::1]", 200, ""},
		{"no other page", "GET /page.html", "", 404, ""},
		{"no control", "GET /_control/snapshot", "", 404, ""},
		{"a route that does not exist", "GET /api//x", "", 404, ""},
		{"the question before a request", "OPTIONS /api/Authenication/login", "Origin " + own, 204, own},
		{"the request", "GET /api/x", "Origin " + own, 404, own},
		{"another origin", "OPTIONS /api/x", other, 404, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			method, path, _ := strings.Cut(test.request, " ")
			status, header, _ := s.do(method, path, "", lines(test.header)...)
			assert.Equal(t, test.status, status)
			assert.Equal(t, test.allowed, header.Get("Access-Control-Allow-Origin"))
			if test.status == http.StatusNoContent {
				for _, name := range []string{"Authorization", "Content-Type", "Idempotency-Key", "Traceparent"} {
					assert.Contains(t, header.Get("Access-Control-Allow-Headers"), name)
				}
			}
		})
	}
}

// A program that kept a token or an identifier of another run hears that both are unknown.
func TestRunsWithoutASeedDiffer(t *testing.T) {
	var tokens, applications []string
	for range 2 {
		s := start(t, "-seed", "0")
		s.signIn(device)
		_, application := s.application("Ada")
		tokens, applications = append(tokens, s.token), append(applications, application)
	}
	assert.NotEqual(t, tokens[0], tokens[1])
	assert.NotEqual(t, applications[0], applications[1])
}

func TestRefusesToBeReached(t *testing.T) {
	if os.Getenv("LENDING_SANDBOX_REFUSES") != "" {
		os.Args = []string{"lending-sandbox", "-framework", "5"}
		main()
		return
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel() // an accepted command line ends soon
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"-addr", ":0"}, "add -public"},
		{[]string{"-addr", "0.0.0.0:0"}, "add -public"},
		{[]string{"-addr", "[::]:0"}, "add -public"},
		{[]string{"-addr", "192.0.2.1:0"}, "add -public"},
		{[]string{"-addr", "nonsense"}, "missing port"},
		{[]string{"-unknown"}, "not defined: -unknown"},
		{[]string{"now", "-public"}, `"now" is not a flag`},
		{[]string{"-origin", "http://localhost:3000/"}, "is not an origin"},
		{[]string{"-origin", "localhost:3000"}, "is not an origin"},
		{[]string{"-origin", "https://"}, "is not an origin"},
		{[]string{"-receiver", "http://192.0.2.7:3000"}, "want host:port"},
		{[]string{"-receiver", "192.0.2.7"}, "want host:port"},
		{[]string{"-seed", "4294967296"}, "number up to 4294967295"},
		{[]string{"-framework", "5"}, "-framework wants 2.3 or 10"},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			assert.ErrorContains(t, run(ended, test.args, io.Discard), test.want)
		})
	}
	require.NoError(t, run(t.Context(), []string{"-h"}, io.Discard))
	program := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRefusesToBeReached$")
	program.Env = append(os.Environ(), "LENDING_SANDBOX_REFUSES=1")
	said, err := program.CombinedOutput()
	var status *exec.ExitError
	require.ErrorAs(t, err, &status)
	assert.Equal(t, 1, status.ExitCode())
	assert.Equal(t, "lending-sandbox: -framework wants 2.3 or 10\n", string(said))
}

// A public sandbox warns, and posts no webhooks to addresses of this machine alone.
func TestPublic(t *testing.T) {
	s := start(t, "-public", "-receiver", "receiver.example:3000")
	s.signIn(device)
	for _, test := range []struct {
		receiver string
		status   int
	}{
		{"http://127.0.0.1:1/", http.StatusBadRequest},
		{"http://receiver.example:3001/", http.StatusBadRequest},
		{"http://receiver.example/", http.StatusBadRequest},
		{"http://RECEIVER.example:3000/hooks", http.StatusOK},
		{"https://anywhere.example/", http.StatusOK},
	} {
		t.Run(test.receiver, func(t *testing.T) {
			status, _, _ := s.do(http.MethodPost, "/api/Webhook/register?"+partner, `{"webhookUri":"`+test.receiver+
				`"}`)
			assert.Equal(t, test.status, status)
		})
	}
	require.NoError(t, s.stop())
	assert.Contains(t, s.out.String(), "WARNING: other machines may reach it.")
}

// A web page can point its own name at a public sandbox (DNS rebinding): it reads nothing, by
// name or without the token.
func TestPublicSandboxAndOtherNames(t *testing.T) {
	s := start(t, "-public", "-control-token", "page-token", "-host", "sandbox", "-host", "lending.test")
	basic := func(password string) string {
		return "Authorization Basic " + base64.StdEncoding.EncodeToString([]byte("anyone:"+password))
	}
	const bearer = "Authorization Bearer page-token"
	for _, test := range []struct {
		name, path, header string
		status             int
	}{
		{"another name", "/", basic("page-token") + "|Host evil.example", 421},
		{"another name, the API", "/api/x", "Host evil.example", 421},
		{"another name, the control", "/_control/snapshot", bearer + "|Host evil.example", 421},
		{"an address", "/api/x", "Host 192.0.2.1:8080", 404},
		{"a name that was allowed", "/api/x", "Host sandbox:8080", 404},
		{"another such name", "/api/x", "Host Lending.Test", 404},
		{"the page without the token", "/", "", 401},
		{"the page with another token", "/", basic("guess"), 401},
		{"the page with the token", "/", basic("page-token"), 200},
		{"the page for a program", "/", bearer, 200},
	} {
		t.Run(test.name, func(t *testing.T) {
			status, header, answer := s.do(http.MethodGet, test.path, "", lines(test.header)...)
			assert.Equal(t, test.status, status)
			assert.Equal(t, status == http.StatusUnauthorized, header.Get("WWW-Authenticate") != "")
			if status != http.StatusOK {
				assert.NotContains(t, answer, "page-token")
			}
		})
	}
}

// With a service.json the sandbox answers like the real service.
func TestTaught(t *testing.T) {
	file := filepath.Join(t.TempDir(), "service.json")
	require.NoError(t, os.WriteFile(file, []byte(
		`{"version":1,"facts":{},"shapes":{"GET /api/Application/get-application/{applicationId}":`+
			`{"kinds":{"object":1},"fields":{"state":{"kinds":{"string":1}}}}}}`),
		0o600))
	s := start(t, "-log=false", "-service", file)
	s.signIn(device)
	_, application := s.application("Lovelace")
	_, _, answer := s.do(http.MethodGet, "/api/Application/get-application/"+application, "")
	assert.Regexp(t, `^\{"state":"state \d+"\}$`, answer)
	for content, want := range map[string]string{
		"[]": "is no service.json of lending-probe",
		`{"version":1,"facts":{"absences":"404 empty"}}`: `has the fact "absences", ` +
			`which docs/dev/assumptions.md does not list`,
		`{"version":1,"facts":{"absence: get-lone":"404 empty"}}`: `no route has the action "get-lone"`,
		`{"version":2}`: "has version 2, and this package reads version 1; update the package",
		`{"version":1,"shapes":{"GET /":{"kinds":3}}}`: "is no service.json of lending-probe",
	} {
		t.Run(content, func(t *testing.T) {
			require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
			require.ErrorContains(t, run(t.Context(), []string{"-service", file}, io.Discard), want)
		})
	}
	require.ErrorIs(t, run(t.Context(), []string{"-service", file + "x"}, io.Discard), fs.ErrNotExist)
}

func TestFormsOfTheFramework(t *testing.T) {
	s := start(t, "-log=false", "-framework", "2.3")
	s.signIn(device)
	wrong := strings.Replace(newCustomer, "ada@", "", 1)
	status, _, answer := s.do(http.MethodPost, "/api/Application/create-customer", wrong)
	assert.Equal(t, 400, status)
	assert.JSONEq(t, `{"Email":["The field is not a valid e-mail address."]}`, answer)
}

const newCustomer = `{"firstName":"Ada","lastName":"Lovelace","email":"ada@example.com",` +
	`"password":"Analytical-Engine-1","mobileNumber":"4155550100"}`

func TestLine(t *testing.T) {
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		settings settings
		r        lendingtest.Request
		want     string
	}{
		{settings{}, lendingtest.Request{
			Time: at, Status: 200, Duration: 1500 * time.Microsecond, Username: "ada@example.com",
			Route: "GET /api/Loan/get-loan/{loanId}", Assumed: "fields",
		}, "12:00:00  200        1.50 ms  ada@example.com      GET /api/Loan/get-loan/{loanId}"},
		{settings{known: "x"}, lendingtest.Request{
			Time: at, Status: 200, Route: "GET /x", Assumed: "fields",
		}, "12:00:00  200        0.00 ms  -                    GET /x, assumed: fields"},
		{settings{}, lendingtest.Request{
			Time: at, Method: http.MethodGet, Path: "/\x1b[31m",
		}, "12:00:00  reset      0.00 ms  -                    GET \"/\\x1b[31m\", which is no route"},
	} {
		assert.Equal(t, test.want, test.settings.line(test.r))
	}
	late := lendingtest.Request{
		Time: at, Username: "ada@example.com", Route: "GET /api/Loan/get-loan/{loanId}",
		Executed: true,
	}
	assert.Equal(t, "12:00:03  late    3000.00 ms  ada@example.com      GET /api/Loan/get-loan/{loanId}, executed "+
		"after its caller had gone", lateLine(late, at.Add(3*time.Second)))
	late.Executed = false
	assert.Contains(t, lateLine(late, at), ", not executed after its caller had gone")
}

// The page shows the newest fifty rows of each list and the number of all rows.
func TestPageIsBounded(t *testing.T) {
	service := lendingtest.New()
	defer service.Close()
	busy := service.AddCustomer(lendingtest.Customer{})
	for range 30 {
		service.AddLoan(lendingtest.Loan{})
	}
	var last lendingtest.Application
	for range 60 {
		last = service.AddApplication(lendingtest.Application{CustomerID: busy.ID})
	}
	service.UpdateApplication(last.ID, func(a *lendingtest.Application) {
		a.Messages = slices.Repeat([]lendingtest.Message{{Message: "hello"}}, 60)
	})
	all := tree(service.Snapshot())
	assert.Len(t, all, 31)
	assert.Equal(t, []int{0, 1}, []int{len(all[0].Applications), all[0].Count}, "older than the other's fifty")
	assert.Equal(t, []int{50, 60}, []int{len(all[30].Applications), all[30].Count})

	var page bytes.Buffer
	require.NoError(t, pageTemplate.ExecuteTemplate(&page, "customers", view{Customers: all}))
	assert.Contains(t, page.String(), "<span>60 applications</span>")
	assert.Equal(t, 31, strings.Count(page.String(), "Older applications are not shown."))
	assert.Equal(t, 50, strings.Count(page.String(), `<details id="application-`))
	assert.Equal(t, 50, strings.Count(page.String(), ">hello<"))
}
