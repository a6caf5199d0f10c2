package main

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/internal/test/steer"
	"github.com/lendingapi/lending-go/lendingtest"
)

// Another program on this machine reads the records, and no page of another origin steers.
func TestControl(t *testing.T) {
	s := start(t, "-log=false", "-control", "-read-lag", "1h")
	s.signIn(device)
	control := steer.Control{URL: s.url + "/_control"}
	var customer struct{ ID string }
	s.post("Application/create-customer", newCustomer, &customer)
	status, _, _ := s.do(http.MethodGet, "/api/Customer/get-customer-by-id/"+customer.ID, "")
	assert.Equal(t, http.StatusNotFound, status, "-read-lag")
	var snap lendingtest.Snapshot
	require.NoError(t, control.Get(t.Context(), "snapshot", nil, &snap))
	assert.Equal(t, customer.ID, snap.Customers[0].ID)
	status, _, _ = s.do(http.MethodPost, "/_control/reset", "{}", "Origin http://localhost:3000")
	assert.Equal(t, http.StatusForbidden, status)
	require.NoError(t, s.stop())
	assert.Contains(t, s.out.String(), "\n  curl -s "+s.url+"/_control/snapshot\n")
}

// Where other machines reach the sandbox its control wants the printed token.
func TestControlOfAPublicSandbox(t *testing.T) {
	s := start(t, "-log=false", "-control", "-public")
	status, _, answer := s.do(http.MethodGet, "/_control/snapshot", "")
	assert.Equal(t, http.StatusUnauthorized, status)
	printed := s.printed(t, `Authorization: Bearer (\w{26})'`)
	assert.NotContains(t, answer, printed)
	other := start(t, "-log=false", "-control", "-public")
	assert.NotEqual(t, printed, other.printed(t, `Authorization: Bearer (\w{26})'`))

	s = start(t, "-log=false", "-public", "-control-token", "from-the-environment")
	control := steer.Control{URL: s.url + "/_control"}
	require.ErrorContains(t, control.Post(t.Context(), "reset", nil, nil), "token")
	control.Token = "from-the-environment"
	require.NoError(t, control.Post(t.Context(), "reset", nil, nil))
	assert.Equal(t, control.Token, s.printed(t, `Authorization: Bearer ([\w-]+)'`))
}

// A sandbox on all addresses prints an address of its certificate.
func TestAddressThatWorks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sandbox.pem")
	s := start(t, "-log=false", "-public", "-addr", ":0", "-tls", file)
	s.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trust(t, file)}}}
	s.signIn(device)
	assert.Contains(t, s.out.String(), "https://localhost:")
}

// trust reads the certificate of a sandbox.
func trust(t *testing.T, file string) *x509.CertPool {
	t.Helper()
	pem, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.NotContains(t, string(pem), "PRIVATE")
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(pem))
	return roots
}

// printed stops the sandbox and returns the text of its greeting.
func (s *sandbox) printed(t *testing.T, form string) string {
	t.Helper()
	require.NoError(t, s.stop())
	found := regexp.MustCompile(form).FindStringSubmatch(s.out.String())
	require.Len(t, found, 2, s.out.String())
	return found[1]
}

// With -tls only a client with the certificate of the file gets through.
func TestTLS(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "sandbox.pem")
	s := start(t, "-log=false", "-control", "-tls", file, "-host", "sandbox.test")
	require.True(t, strings.HasPrefix(s.url, "https://127.0.0.1:"), s.url)
	for _, name := range []string{"", "localhost", "sandbox.test"} {
		transport := &http.Transport{
			TLSClientConfig:   &tls.Config{RootCAs: trust(t, file), ServerName: name},
			ForceAttemptHTTP2: true,
		}
		s.client = &http.Client{Transport: transport}
		s.signIn(device)
		transport.CloseIdleConnections()
	}
	_, _, page := s.do(http.MethodGet, "/", "")
	assert.Contains(t, page, "<code>"+s.url+"/api</code>")
	s.client.CloseIdleConnections()
	control := steer.Control{URL: s.url + "/_control"}
	require.ErrorContains(t, control.Post(t.Context(), "reset", nil, nil), "certificate")
	control.Client = s.client
	require.NoError(t, control.Post(t.Context(), "reset", nil, nil))

	s.client.CloseIdleConnections()
	require.NoError(t, s.stop())
	assert.Contains(t, s.out.String(), "curl -s --cacert '"+file+"' "+s.url+"/api/Authenication/login")
	for _, trust := range []string{"NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE"} {
		assert.Contains(t, s.out.String(), trust+"='"+file+"'")
	}
	require.Error(t, run(t.Context(), []string{"-addr", "127.0.0.1:0", "-tls", filepath.Join(file, "in-a-file")},
		io.Discard))
}

// A mutation that runs after its caller has gone has a line in the log and on the page, and so has
// an order of the control.
func TestLateMutation(t *testing.T) {
	t.Parallel()
	s := start(t, "-control")
	shows := func(want string) {
		t.Helper()
		_, _, page := s.do(http.MethodGet, "/", "")
		assert.Contains(t, page, want)
	}
	shows("No fault is planned.")
	control := steer.Control{URL: s.url + "/_control"}
	require.NoError(t, control.Fail(t.Context(), "*", lendingtest.Fault{Status: 504, Late: time.Millisecond}))
	shows(`<li>*, 1 time: <code>{&#34;status&#34;:504,&#34;late&#34;:&#34;1ms&#34;}</code>`)
	status, _, _ := s.do(http.MethodPost, "/api/Authenication/login", `{"username":"`+lendingtest.Username+
		`","password":"`+lendingtest.Password+`"`+device+`}`)
	assert.Equal(t, http.StatusGatewayTimeout, status)
	require.NoError(t, control.Post(t.Context(), "wait", nil, nil))
	shows("POST /api/Authenication/login: 504, executed")
	require.NoError(t, control.Post(t.Context(), "advance", map[string]string{"by": (24 * time.Hour).String()}, nil))
	shows("Its clock shows 2026-11-21 12:00:00.")
	require.NoError(t, control.Post(t.Context(), "reset", nil, nil))
	shows(`role="status">none yet<`)
	require.NoError(t, s.stop())
	assert.Regexp(t, `(?m)^12:00:00  504    .* ms  -  +POST /api/Authenication/login$`, s.out.String())
	assert.Regexp(t, `(?m)^12:00:00  late   .* ms  -  +POST /api/Authenication/login, executed after its caller had `+
		`gone$`, s.out.String())
}
