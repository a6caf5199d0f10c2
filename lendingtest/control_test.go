package lendingtest_test

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/internal/test/steer"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/lendingtest/control"
)

const confirmRoute = "POST /api/Loan/confirm-withdrawal-invoice/{loanId}"

// controlled serves a service and its control side by side.
func controlled(t *testing.T, opts ...lendingtest.Option) (*rig, string) {
	t.Helper()
	r := serverRig(t, opts...)
	mux := http.NewServeMux()
	mux.Handle("/_control/", control.New(r.Service, nil))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return r, server.URL + "/_control"
}

// An order does what the method of a service does.
func TestOrders(t *testing.T) {
	t.Parallel()
	receiver := newReceiver(t)
	r, address := controlled(t, lendingtest.WithLoopbackReceivers())
	c, ctx := steer.Control{URL: address}, t.Context()
	post := func(order string, body map[string]any) {
		t.Helper()
		require.NoError(t, c.Post(ctx, order, body, nil))
	}
	sub := r.AddSubscription(lendingtest.Subscription{WebhookURI: receiver.URL})

	var loan lendingtest.Loan
	require.NoError(t, c.Post(ctx, "add-loan", lendingtest.Loan{}, &loan))
	assert.Equal(t, []any{lendingtest.Cents(10_000_00), true}, []any{loan.AvailableBalance, loan.IsEnabled})
	more := lendingtest.Loan{
		ApplicationID: loan.ApplicationID, Amount: 5,
		Transactions: []lendingtest.Transaction{{ID: "x", Amount: 250_00}},
	}
	require.NoError(t, c.Post(ctx, "add-loan", more, &more))
	assert.Equal(t, []any{lendingtest.Cents(5), more.Amount, "x"}, []any{
		more.Amount, more.AvailableBalance, r.Snapshot().Loans[1].Transactions[0].ID,
	})

	r.post("/api/Calculation/application-invoice-calculation?applicationId="+loan.ApplicationID, invoice).ok()
	r.post("/api/Loan/make-withdrawal-invoice/"+loan.ID, `{"calculation":`+invoice+`}`).ok()
	var otp string
	require.NoError(t, c.Get(ctx, "otp", url.Values{"loan": {loan.ID}}, &otp))
	assert.Equal(t, r.OTP(loan.ID), otp)
	require.NoError(t, c.Fail(ctx, confirmRoute, lendingtest.Fault{Status: 503, Times: -1}))
	r.post("/api/Loan/confirm-withdrawal-invoice/"+loan.ID, "").refused(503, "InjectedFault")
	same := func(order string, query url.Values, want any) {
		t.Helper()
		var answer json.RawMessage
		require.NoError(t, c.Get(ctx, order, query, &answer))
		assert.JSONEq(t, marshal(t, want), string(answer), order)
	}
	require.NoError(t, c.Fail(ctx, "GET /api/Loan/get-loan/{loanId}", lendingtest.Fault{Status: 503, Times: -1}))
	post("clear-faults", nil)
	r.get("/api/Loan/get-loan/" + loan.ID).ok()
	require.NoError(t, c.Fail(ctx, confirmRoute, lendingtest.Fault{Late: soon}))
	require.Error(t, r.post("/api/Loan/confirm-withdrawal-invoice/"+loan.ID, confirmation("2500.00", "0.8", otp)).err)
	require.NoError(t, c.Post(ctx, "wait", nil, nil))
	same("executed", url.Values{"route": {confirmRoute}}, 1)
	assert.Equal(t, 1, r.ExecutedFor(confirmRoute)[loan.ID])
	same("arrived", url.Values{"route": {confirmRoute}}, 2)
	same("executed", url.Values{"route": {confirmRoute}, "about": {loan.ID}}, 1)

	posted := r.Deliveries()
	require.NotEmpty(t, posted)
	same("deliveries", nil, posted)
	var read []lendingtest.Delivery
	require.NoError(t, c.Get(ctx, "deliveries", nil, &read))
	assert.Equal(t, posted, read)
	receiver.verified(sub.Secret)

	offered := r.offered()
	post("update", map[string]any{"id": offered, "set": json.RawMessage(`{"offer":{"expiresUTC":"2026-01-01"}}`)})
	assert.Equal(t, true, r.get("/api/Application/application-offer/" + offered).object()["isExpired"])
	r.post("/api/Authenication/login", `{"username":"`+lendingtest.Username+`","password":"`+lendingtest.Password+
		`"}`).ok()
	var code string
	require.NoError(t, c.Get(ctx, "two-factor-code", url.Values{"username": {lendingtest.Username}}, &code))
	assert.Equal(t, r.TwoFactorCode(lendingtest.Username), code)

	var snap lendingtest.Snapshot
	require.NoError(t, c.Get(ctx, "snapshot", nil, &snap))
	want := r.Snapshot()
	want.Time = snap.Time
	assert.Equal(t, marshal(t, want), marshal(t, snap))
	require.NoError(t, c.Post(ctx, "advance", map[string]string{"by": (2 * time.Hour).String()}, nil))
	r.get("/api/Application/application-offer/"+offered).refused(401, "TokenExpired")
	require.NoError(t, c.Post(ctx, "reset", nil, nil))
	assert.Empty(t, r.Snapshot().Loans)
}

// Who may give orders: local callers, those with the token, and no page of another origin.
func TestControlIsGuarded(t *testing.T) {
	t.Parallel()
	const evil, own = "https://evil.example", "http://127.0.0.1"
	for _, test := range []struct {
		name, request, header, token, peer string // header has names and values
		status                             int
		says                               string
	}{
		{"a change", "POST /any/where/reset", "", "", "", 204, ""},
		{"a charset", "POST /reset", "Content-Type application/json; charset=utf-8", "", "", 204, ""},
		{"IPv6", "GET /otp?loan=x", "Host [::1]:80", "", "[::1]:9", 200, `""`},
		{"localhost", "GET /otp?loan=x", "Host LOCALHOST", "", "", 200, ""},
		{"a name of the web for this machine", "GET /snapshot", "Host evil.example:80", "", "", 403, "only this machine"},
		{"another machine", "GET /snapshot", "", "", "192.0.2.1:1", 403, "only this machine"},
		{"a form of a page", "POST /reset", "Content-Type text/plain", "", "", 415, "wants application/json"},
		{"a page of the web", "POST /reset", "Origin " + evil, "", "", 403, "another origin"},
		{"a page that hides", "POST /reset", "Origin null", "", "", 403, "another origin"},
		{"an image of a page", "GET /snapshot", "Sec-Fetch-Site cross-site", "", "", 403, "another origin"},
		{"a page of another port", "GET /snapshot", "Sec-Fetch-Site same-site", "", "", 403, "another origin"},
		{"the page of the sandbox", "POST /reset", "Origin " + own + "|Sec-Fetch-Site same-origin", "", "", 204, ""},
		{"the question of a browser", "OPTIONS /reset", "Origin " + own, "", "", 404, "there is no"},
		{"the token", "GET /otp?loan=x", "Authorization Bearer t0|Host sandbox", "t0", "192.0.2.1:1", 200, ""},
		{"no token", "GET /otp?loan=x", "", "t0", "", 401, "missing or wrong"},
		{"another token", "GET /otp?loan=x", "Authorization Bearer t1", "t0", "", 401, "missing or wrong"},
		{"the token in a page", "GET /otp?loan=x", "Authorization Bearer t0|Origin " + evil, "t0", "", 403, "another origin"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			order(t, test.request+" {}", test.header, test.token, test.peer, test.status, test.says)
		})
	}
}

// Misspelt names, numbers out of range and names that do not exist are errors.
func TestOrdersAreChecked(t *testing.T) {
	t.Parallel()
	const executed = "GET /executed?route=GET+/api/Loan/get-loan/{loanId}"
	const noRoute = `"lendingtest: no route \"GET /api/Loan/get-loan/{id}\"; openapi.yaml lists all routes"`
	for _, test := range []struct{ request, says string }{
		{"GET /nothing", "there are GET arrived, GET deliveries"},
		{"GET /reset", "there are GET arrived, GET deliveries"},
		{"GET /executed?route=x&fro=y", `has no parameter \"fro\"`},
		{"POST /reset?x=1 {}", "has no parameter"},
		{"GET /otp", "otp wants loan"},
		{executed + "&about=", "executed wants about"},
		{executed, ""},
		{executed + "&about=x", ""},
		{executed + "&about=y", "no record, e-mail or account"},
		{"GET /executed?route=GET+/api/Loan/get-loan/{id}", noRoute},
		{"GET /requests?route=x", "has no parameter"},
		{"GET /requests?limit=x", "limit is not a number"},
		{"GET /requests?limit=-1", "limit is not a number"},
		{"GET /requests?limit=", "requests wants limit"},
		{"GET /otp?loan=y", "no loan"},
		{"GET /two-factor-code?username=y", "no account"},
		{`POST /fail {"route":"*","fualt":{}}`, "fualt"},
		{`POST /fail {"route":"*","fault":{"stauts":500}}`, "stauts"},
		{`POST /fail {"route":"*","fault":{"status":503,"for":"x"}}`, "for"},
		{`POST /fail {"route":"GET /api/Loan/get-loan/{id}","fault":{"status":503}}`, noRoute},
		{`POST /fail {"route":"*"}`, "the fault changes nothing; set status"},
		{`POST /fail {"route":"*","fault":{"retryAfter":"3s","executes":true}}`, "changes nothing"},
		{`POST /fail {"route":"*","fault":{"status":503,"times":-7}}`, "times must be"},
		{`POST /fail {"route":"*","fault":{"cutBody":-99}}`, "cutBody must be"},
		{`POST /fail {"route":"*","fault":{"status":1000}}`, "1000"},
		{`POST /fail {"route":"*","fault":{"late":"-3s"}}`, "is negative"},
		{`POST /fail {"route":"*","fault":{"late":3}}`, "late takes no number"},
		{`POST /fail []`, "the body: it takes no array"},
		{`POST /answer {}`, "there are GET arrived, GET deliveries"},
		{`POST /advance {"by":"1 hour"}`, "the body"},
		{`POST /advance {"by":"1h"} {"by":"1h"}`, "more than one value"},
		{`POST /advance {"by":"1h"}}`, "more than one value"},
		{`POST /advance {}`, "advance needs by"},
		{`POST /advance`, "the body is empty"},
		{`POST /advance {"by":"1h","for":"x"}`, "for"},
		{`POST /advance {"by":"-2562047h"}`, "the year"},
		{`POST /add-loan {"applicationId":"y"}`, "lendingtest: no application y"},
		{`POST /add-loan {"amount":-5}`, "is negative"},
		{`POST /add-loan {"amount":"5"}`, "the body"},
		{`POST /decision {"after":"-1s"}`, "after is negative"},
		{`POST /add-loan {"createdUTC":5}`, "the body"},
		{`POST /add-loan {"createdUTC":"soon"}`, "the body"},
		{`POST /repay {"amount":5}`, "no loan"},
		{`POST /update {"set":{}}`, "no customer, application, loan or subscription"},
		{`POST /update {"id":"x"}`, "update needs set"},
		{`POST /repay {"loanId":"x","amount":-5}`, "above zero"},
		{`POST /repay {"loanId":"x"}`, "above zero"},
		{`POST /repay {"loanId":"x","amount":5,"every":"1h"}`, "unknown field"},
		{`POST /delivery-mode {"copies":-1}`, "negative"},
		{`POST /services {}`, "this control opens no services"},
	} {
		t.Run(test.request, func(t *testing.T) {
			t.Parallel()
			status := 400
			switch test.says {
			case "":
				status = 200
			case "there are GET arrived, GET deliveries":
				status = 404
			}
			order(t, test.request, "", "", "", status, test.says)
		})
	}
}

// order gives an order to the control of a service with a loan.
func order(t *testing.T, request, header, token, peer string, status int, says string) {
	t.Helper()
	s := lendingtest.New()
	defer s.Close()
	s.AddLoan(lendingtest.Loan{ID: "x"})
	method, rest, _ := strings.Cut(request, " /")
	path, body, _ := strings.Cut(rest, " ")
	if strings.HasPrefix(path, "executed") { // its route has a space
		path, body = rest, ""
	}
	path = strings.ReplaceAll(path, " ", "+")
	req := httptest.NewRequestWithContext(t.Context(), method, "http://127.0.0.1/"+path, strings.NewReader(body))
	req.RemoteAddr = cmp.Or(peer, "127.0.0.1:1")
	req.Header.Set("Content-Type", "application/json")
	for line := range strings.SplitSeq(header, "|") {
		name, value, _ := strings.Cut(line, " ")
		if req.Header.Set(name, value); name == "Host" {
			req.Host = value
		}
	}
	w := httptest.NewRecorder()
	control.New(s, &control.Options{Token: token}).ServeHTTP(w, req)
	assert.Equal(t, status, w.Code, w.Body)
	assert.Contains(t, w.Body.String(), says)
	for name := range w.Header() {
		assert.NotContains(t, name, "Access-Control")
	}
	if status >= 400 {
		assert.Contains(t, w.Body.String(), `{"error":"`)
		assert.Len(t, s.Snapshot().Loans, 1)
		assert.Empty(t, s.Faults())
	}
}

// A fault is the same in another process, with all that can leave this one.
func TestFaultInJSON(t *testing.T) {
	t.Parallel()
	f := lendingtest.Fault{
		Status: 503, Body: []byte("text"), ContentType: "text/plain", Header: http.Header{"A": {"b", "c"}},
		RetryAfter: 1, Executes: true, AnswerDelay: 2, DelayBefore: 3, ResetBefore: true, ResetAfter: true,
		CutBody: 4, Late: 5, Times: 6,
	}
	all := reflect.ValueOf(f)
	for i := range all.NumField() {
		name := all.Type().Field(i).Name
		assert.Equal(t, name == "Reached", all.Field(i).IsZero(), name)
	}
	b, err := json.Marshal(f)
	require.NoError(t, err)
	var again lendingtest.Fault
	require.NoError(t, json.Unmarshal(b, &again))
	assert.Equal(t, f, again)
	_, err = json.Marshal(lendingtest.Fault{Reached: func() {}})
	require.ErrorContains(t, err, "cannot be sent to another process")
	_, err = json.Marshal(lendingtest.Fault{Body: []byte{0xff}})
	require.ErrorContains(t, err, "not UTF-8 text")
	for _, test := range []struct {
		want string
		f    lendingtest.Fault
	}{
		{`{}`, lendingtest.Fault{}},
		{`{"body":""}`, lendingtest.Fault{Body: []byte{}}},
		{`{"late":"1m30s"}`, lendingtest.Fault{Late: 90 * time.Second}},
		{`{"cutBody":-1,"times":-1}`, lendingtest.Fault{CutBody: -1, Times: -1}},
		{`{"status":429,"retryAfter":"2s"}`, lendingtest.Fault{Status: 429, RetryAfter: 2 * time.Second}},
	} {
		t.Run(test.want, func(t *testing.T) {
			b, err := json.Marshal(test.f)
			require.NoError(t, err)
			assert.Equal(t, test.want, string(b))
		})
	}
}

// CONTROL.md names every order and every field of a fault, and its lines for curl work as printed.
func TestControlPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("CONTROL.md")
	require.NoError(t, err)
	r, url := controlled(t)
	unknown := steer.Control{URL: url}.Get(t.Context(), "nothing", nil, nil)
	_, names, _ := strings.Cut(unknown.Error(), "there are ")
	for name := range strings.SplitSeq(names, ", ") {
		assert.Contains(t, string(page), "\n| "+strings.Replace(name, " ", " `", 1)+"` |")
	}
	for field := range reflect.TypeFor[lendingtest.Fault]().Fields() {
		if name := field.Name; name != "Reached" {
			assert.Contains(t, string(page), "`"+strings.ToLower(name[:1])+name[1:]+"`")
		}
	}

	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("the lines for curl were not run: ", err)
	}
	_, three, _ := strings.Cut(string(page), "```sh\nCONTROL=")
	three, _, _ = strings.Cut("CONTROL="+three, "```")
	loan := r.withdrawing()
	three = strings.NewReplacer("http://127.0.0.1:8080/_control", url, "00000001-0004-4000-8000-000000000001",
		loan.ID).Replace(three)
	assert.Equal(t, 3, strings.Count(three, "curl "))
	run := func(lines string) string {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(lines, "curl ", curl+" "))
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		return string(out)
	}
	assert.Equal(t, `"`+r.OTP(loan.ID)+"\"\n0\n", run(three))
	require.Error(t, r.post("/api/Loan/confirm-withdrawal-invoice/"+loan.ID,
		confirmation("2500.00", "0.8", r.OTP(loan.ID))).err, "the fault was set")
	assert.Equal(t, `"`+r.OTP(loan.ID)+"\"\n1\n", run(three))

	_, late, _ := strings.Cut(string(page), "from now on:\n\n```sh\n")
	late, _, _ = strings.Cut(late, "```")
	run("CONTROL=" + url + "\n" + late)
	r.post("/api/Application/create-application", "{}").refused(504, "InjectedFault")
}

// The bodies of CONTROL.md lead from a customer to a withdrawal.
func TestControlPageHasEveryBody(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("CONTROL.md")
	require.NoError(t, err)
	_, section, _ := strings.Cut(string(page), "## Request bodies")
	rows := regexp.MustCompile("(?m)^\\| `((?:GET|POST) [^`]+)`[^|]*\\| (?:`(.+)`)?").FindAllStringSubmatch(section, -1)
	require.Len(t, rows, 16)
	r := newRig(t)
	for _, row := range rows {
		signers := []string{""}
		if strings.Contains(row[1], "{applicantId}") {
			signers = nil
			for _, a := range r.Snapshot().Applications[0].Applicants {
				signers = append(signers, a.ID)
			}
		}
		for _, signer := range signers {
			state, fill := r.Snapshot(), []string{"{applicantId}", signer}
			for _, c := range state.Customers {
				fill = append(fill, "{customerId}", c.ID)
			}
			for _, a := range state.Applications {
				fill = append(fill, "{applicationId}", a.ID)
			}
			for _, l := range state.Loans {
				fill = append(fill, "{loanId}", l.ID, "{otp}", r.OTP(l.ID))
			}
			r.request(strings.NewReplacer(fill...).Replace(strings.TrimSpace(row[1] + " " + row[2]))).ok()
		}
	}
	assert.Len(t, r.Snapshot().Loans[0].Withdrawals, 1)
}
