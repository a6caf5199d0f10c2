package browser_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lendingapi/lending-go/internal/test/steer"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Of all tests: started, compiled and read once.
var (
	browser *chromium
	program string
	axe     string // the script of axe-core, empty if there is none
)

func TestMain(m *testing.M) {
	status, err := runAll(m)
	switch {
	case errors.Is(err, errNoChromium) && os.Getenv("CI") != "true":
		fmt.Fprintln(os.Stderr, "SKIPPED:", err)
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}

func runAll(m *testing.M) (status int, err error) {
	folder, err := os.MkdirTemp("", "browser")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(folder)
	if browser, err = startChromium(filepath.Join(folder, "profile")); err != nil {
		return 0, err
	}
	defer browser.stop()
	if program, err = buildContainer(filepath.Join(folder, "source"), filepath.Join(folder, "root")); err != nil {
		return 1, err
	}
	if path := os.Getenv("LENDING_TEST_AXE"); path != "" {
		script, err := os.ReadFile(path)
		if err != nil {
			return 1, err
		}
		axe = string(script)
	}
	return m.Run(), nil
}

// sandbox is a running sandbox process.
type sandbox struct {
	*testing.T
	url, token string
	control    steer.Control
}

func startSandbox(t *testing.T, args ...string) *sandbox {
	t.Helper()
	process := exec.CommandContext(t.Context(), program,
		append([]string{"-addr", "127.0.0.1:0", "-log=false", "-control"}, args...)...)
	out, err := process.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, process.Start())
	t.Cleanup(func() { _ = process.Wait() }) // t.Context has ended
	first, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	s := &sandbox{T: t, url: strings.TrimSuffix(strings.TrimSpace(strings.TrimPrefix(first, "The sandbox is at ")),
		"/")}
	s.control = steer.Control{URL: s.url + "/_control"}
	return s
}

// call makes a request, decodes the response, and returns the status, or 0 without a response.
func (s *sandbox) call(method, path, body string, result any) int {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), method, s.url+path, strings.NewReader(body))
	require.NoError(s, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	if s.token != "" {
		r.Header.Set("Authorization", "Bearer "+s.token)
	}
	resp, err := steer.Unkept.Do(r)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && result != nil {
		require.NoError(s, json.Unmarshal(answer, result), string(answer))
	}
	return resp.StatusCode
}

func (s *sandbox) post(path, body string, result any) {
	s.Helper()
	require.Equal(s, http.StatusOK, s.call(http.MethodPost, "/api/"+path, body, result), path)
}

func (s *sandbox) get(path string) int {
	s.Helper()
	return s.call(http.MethodGet, "/api/"+path, "", nil)
}

func (s *sandbox) signIn() {
	s.Helper()
	var user struct{ Token string }
	s.post("Authenication/login", fmt.Sprintf(`{"username":%q,"password":%q,"trustedDeviceToken":%q}`,
		lendingtest.Username, lendingtest.Password, lendingtest.TrustedDeviceToken), &user)
	s.token = user.Token
}

func text(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// records are the identifiers of fill's records.
type records struct{ customer, application, loan, webhooks string }

// fill goes all the way to a withdrawal, with a webhook receiver, and has called be
// wherever a caller may write a text. Names have room for 50 characters.
func (s *sandbox) fill(called string) (r records) {
	s.Helper()
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request,
	) {
		fmt.Fprint(w, called)
	}))
	s.Cleanup(receiver.Close)
	s.signIn()
	q, name := text(called), text(called[:min(50, len(called))])
	target := "partnerId=" + lendingtest.PartnerID
	s.post("Webhook/register?"+target, `{"webhookUri":"`+receiver.URL+`/hooks?from=`+strings.Trim(q, `"`)+
		`","webhooks":[]}`, nil)
	r.webhooks = receiver.URL
	var customer struct{ ID string }
	s.post("Application/create-customer", `{"firstName":`+name+
		`,"lastName":"Lovelace","email":"ada@example.com","password":"Analytical-Engine-1",`+
		`"mobileNumber":"4155550100"}`, &customer)
	r.customer = customer.ID
	s.post("Application/create-application?sendLink=true", `{"customerId":"`+r.customer+`","businessName":`+q+
		`,"extraInformation":{`+q+`:`+q+`}}`, &r.application)
	s.post("Application/add-or-update-banking-data/"+r.application,
		`{"accounts":[{"accountNumber":"1","balance":"1.00","accountName":`+q+
			`,"transactions":[{"date":"2026-01-01","description":`+q+`,"amount":"7500.00"}]}]}`, nil)
	require.Equal(s, 200, s.get("Application/process-application/"+r.application))
	s.post("ApplicationApproval/add-company-details/"+r.application, `{"name":`+q+`}`, nil)
	s.post("ApplicationApproval/add-primary-applicant-details/"+r.application, `{"firstName":`+q+`,"lastName":`+q+
		`,"email":`+q+`}`, nil)
	s.post("ApplicationApproval/set-primary-bank-account/"+r.application+"/account-1", "", nil)
	file := `?fileType=` + escape(called) + `&fileName=` + escape(called+".pdf")
	assert.Equal(s, 200, s.call(http.MethodPost, "/api/ApplicationApproval/submit-document/"+r.application+file,
		`"QUJD"`, nil))
	s.post("Communication/post-messages/"+r.application, `{"message":`+q+`}`, nil)
	var applicants []struct{ ID string }
	require.Equal(s, 200, s.call(http.MethodGet, "/api/ApplicationApproval/get-all-applicants/"+r.application, "",
		&applicants))
	s.post("ApplicationApproval/sign-contract/"+r.application+"/"+applicants[0].ID,
		`{"mimeType":"image/png","signature":"aQ==","signature2":"aQ=="}`, nil)
	var snap lendingtest.Snapshot
	require.NoError(s, s.control.Get(s.Context(), "snapshot", nil, &snap))
	r.loan = snap.Loans[0].ID
	const invoice = `{"amount":2500.00,"percentOfIncome":10,"terms":6,"fixedRepaymentCalculation":true}`
	s.post("Calculation/application-invoice-calculation?applicationId="+r.application, invoice, nil)
	s.post("Loan/make-withdrawal-invoice/"+r.loan, `{"calculation":`+invoice+`}`, nil)
	var otp string
	require.NoError(s, s.control.Get(s.Context(), "otp", url.Values{"loan": {r.loan}}, &otp))
	s.post("Loan/confirm-withdrawal-invoice/"+r.loan,
		`{"amount":2500.00,"advanceRate":0.8,"dateUTC":"2024-02-03T00:00:00Z","otp":"`+otp+`"}`, nil)
	return r
}

func escape(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		fmt.Fprintf(&b, "%%%02X", c)
	}
	return b.String()
}
