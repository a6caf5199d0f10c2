package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/lendingtest"
)

// session runs command lines in a folder of their own, at a sandbox.
type session struct {
	*lendingtest.Server
	account     map[string]string
	input       string
	out, errOut bytes.Buffer
}

func newSession(t *testing.T) *session {
	t.Helper()
	s := &session{Server: lendingtest.NewServer(lendingtest.WithLoopbackReceivers())}
	t.Cleanup(s.Close)
	t.Chdir(t.TempDir())
	s.account = map[string]string{
		"LENDING_USERNAME": lendingtest.Username, "LENDING_PASSWORD": lendingtest.Password,
		"LENDING_TRUSTED_DEVICE_TOKEN": lendingtest.TrustedDeviceToken,
	}
	return s
}

func (s *session) run(t *testing.T, args ...string) (status int) {
	t.Helper()
	s.out.Reset()
	s.errOut.Reset()
	getenv := func(name string) string { return s.account[name] }
	args = append([]string{"-url", s.URL, "-lag-limit", "1900ms"}, args...)
	return run(t.Context(), args, getenv, strings.NewReader(s.input), &s.out, &s.errOut)
}

// TestFirstHour takes the way of docs/first-hour.md, which has the output.
func TestFirstHour(t *testing.T) {
	page, err := os.ReadFile("../../docs/first-hour.md")
	require.NoError(t, err)
	s := newSession(t)
	hasOutput := func() {
		t.Helper()
		for line := range strings.Lines(s.out.String()) {
			assert.Contains(t, string(page), line)
		}
	}
	assert.Equal(t, exitDiffers, s.run(t, "-partner", lendingtest.PartnerID, "-create", "-email", "tests@example.com"),
		s.errOut.String()) // HTTP/1.1
	hasOutput()
	assert.FileExists(t, "service.json")
	assert.FileExists(t, "lending-probe.created.jsonl")

	learned, err := os.ReadFile("service.json")
	require.NoError(t, err)
	assert.Equal(t, 0, s.run(t, "-partner", lendingtest.PartnerID, "-against", "service.json"), s.out.String())
	unchanged, err := os.ReadFile("service.json")
	require.NoError(t, err)
	assert.Equal(t, string(learned), string(unchanged), "-against must not write the file that it reads")

	s.Answer("GET /api/ApplicationApproval/get-required-documents/{applicationId}",
		func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			for i, before := range []string{"[", ",", ","} { // three records
				fmt.Fprintf(w, `%s{"supportingDocumentId":"5f1c7a90-2f7b-4e0a-9b66-7c8d9e0f1a2%d","fileType":"VOIDED_CHECK",`+
					`"isSubmitted":false,"text":"A check"}`, before, i)
			}
			fmt.Fprint(w, "]")
		})
	assert.Equal(t, exitDiffers, s.run(t, "-partner", lendingtest.PartnerID, "-against", "service.json"))
	changes, _, _ := strings.Cut(s.out.String(), "\n\nheld ")
	s.out.Reset()
	s.out.WriteString(changes)
	hasOutput()
}

func TestPersonEntersTheCodes(t *testing.T) {
	s := newSession(t)
	delete(s.account, "LENDING_TRUSTED_DEVICE_TOKEN")
	loan := s.AddLoan(lendingtest.Loan{}).ID
	assert.Equal(t, exitFailed, s.run(t, "-loan", loan), "nobody enters the code")
	assert.Contains(t, s.out.String(), "The service has sent a two-factor code. Enter the code: ")
	assert.Contains(t, s.errOut.String(), "the sign-in ")
	assert.NoFileExists(t, "service.json")
}

func TestWrongUsage(t *testing.T) {
	s := newSession(t)
	newer := filepath.Join(t.TempDir(), "newer.json")
	require.NoError(t, os.WriteFile(newer, []byte(`{"version":2}`), 0o600))
	for _, test := range []struct {
		name, want string
		args       []string
	}{
		{"no flag", `"look" is not a flag`, []string{"look"}},
		{"unknown flag", "not defined: -x", []string{"-x"}},
		{"a newer file", "update the program", []string{"-against", newer}},
		{"no file", "no such file", []string{"-against", "none.json"}},
		{"no bank data", "no such file", []string{"-bank-data", "none.json"}},
		{"bank data that is no JSON", "is not JSON", []string{"-bank-data", "data.txt"}},
		{"a folder that does not exist", "no such file", []string{"-out", "none/service.json"}},
		{"a folder", "is a folder", []string{"-out", "."}},
		{"creating without an address", "needs Email", []string{"-create"}},
		{"an address that cannot listen", "lending-probe: listen tcp", []string{
			"-webhooks", "https://x.example", "-listen", "x:y",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			require.NoError(t, os.WriteFile("data.txt", []byte("ada"), 0o600))
			assert.Equal(t, exitFailed, s.run(t, test.args...))
			assert.Contains(t, s.errOut.String(), test.want)
			assert.Empty(t, s.Requests())
			left, err := filepath.Glob("*.new")
			require.NoError(t, err)
			assert.Empty(t, left)
		})
	}
	var out bytes.Buffer
	assert.Equal(t, 0, run(t.Context(), []string{"-h"}, os.Getenv, nil, &out, &out))
	assert.Contains(t, out.String(), "usage: lending-probe")
	assert.Equal(t, exitFailed, run(t.Context(), nil, os.Getenv, nil, &out, &out))
	assert.Contains(t, out.String(), "-url is missing")
	nobody := func(string) string { return "" }
	assert.Equal(t, exitFailed, run(t.Context(), []string{"-url", s.URL}, nobody, nil, &out, &out))
	assert.Contains(t, out.String(), "set LENDING_USERNAME and LENDING_PASSWORD")
}

// The probe listens for the webhooks of the walk.
func TestWebhooksArrive(t *testing.T) {
	s := newSession(t)
	address := fmt.Sprint("127.0.0.1:", 10_000+rand.N(20_000)) // the gates run beside each other
	s.run(t, "-create", "-email", "tests@example.com", "-webhooks", "http://"+address+"/", "-listen", address,
		"-lag-limit", "500ms")
	assert.Contains(t, s.out.String(), "held      webhook signature", s.errOut.String())
}
