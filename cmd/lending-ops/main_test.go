package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/ops"
	"github.com/lendingapi/lending-go/webhook"
)

const token = "n1ght"

// terminal is a person's terminal at a backend with a lost withdrawal and a dead letter.
type terminal struct {
	*testing.T
	url     string
	service *lendingtest.Server
	confirm func() error
	close   func() // of the client: its session cannot sign in then
}

func open(t *testing.T) *terminal {
	t.Helper()
	log := fake.Must(idempotency.NewLog(store.NewMemory(), nil))
	service := lendingtest.NewServer()
	t.Cleanup(service.Close)
	client, err := lending.New(service.URL,
		lending.WithCredentials(fake.Credentials(service)), lending.WithIdempotency(log))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	row := service.AddLoan(lendingtest.Loan{})
	calculation := fake.Invoice()
	_, err = client.Calculation.Invoice(t.Context(), fake.Must(lending.ParseApplicationID(row.ApplicationID)), calculation)
	require.NoError(t, err)
	begun, err := client.Loans.WithdrawInvoice(t.Context(), fake.Must(lending.ParseLoanID(row.ID)),
		lending.InvoiceWithdrawalRequest{Calculation: *calculation})
	require.NoError(t, err)
	otp := lending.NewSecret(service.OTP(row.ID))
	confirm := func() error {
		_, err := client.Loans.ConfirmInvoiceWithdrawal(lending.WithIdempotencyKey(t.Context(), "order-42/confirm"), *begun,
			lending.WithdrawInvoiceRequestData{DateUTC: time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC), OTP: otp})
		return err
	}
	service.Fail("POST /api/Loan/confirm-withdrawal-invoice/{loanId}", lendingtest.Fault{ResetAfter: true})
	require.Error(t, confirm())

	inbox := webhook.NewMemoryInbox()
	event := fake.Must(webhook.Parse([]byte(`{"webhookEvent":"WB_Loan_Created","data":{}}`)))
	require.NoError(t, inbox.Put(t.Context(), event))
	entry := fake.Must(inbox.Take(t.Context()))
	require.NoError(t, inbox.DeadLetter(t.Context(), entry, errors.New("no loan \x1b[31myet")))

	handler := ops.Handler(ops.Options{
		Log: log, Inboxes: map[string]webhook.DeadLetters{"webhooks": inbox},
		Sessions: map[string]*lending.Session{"acme": client.Session()}, Client: client,
		Who:    func(*http.Request) (string, bool) { return "dora", true },
		Logger: slog.New(slog.DiscardHandler),
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return &terminal{t, server.URL + "/ops", service, confirm, client.Close}
}

// run runs a command line and returns its output, with a status other than 0 at the end.
func (tt *terminal) run(args ...string) (out string, status int) {
	tt.Helper()
	var stdout, stderr bytes.Buffer
	status = run(tt.Context(), append([]string{"-url", tt.url}, args...), token, strings.NewReader(""), &stdout, &stderr)
	return stdout.String() + stderr.String(), status
}

// The command line alone is enough to find a withdrawal whose confirmation was lost, to decide it,
// and to see the decision.
func TestPersonDecidesAWithdrawalAtNight(t *testing.T) {
	t.Parallel()
	tt := open(t)
	out, status := tt.run("review")
	require.Zero(t, status, out)
	require.Equal(t, "none\n", out)
	out, status = tt.run("doubt")
	require.Zero(t, status, out)
	require.Contains(t, out, "order-42/confirm")
	out, _ = tt.run("show", "order-42/confirm")
	require.Regexp(t, "GET /api/Loan/get-withdrawals/0[-0-9]+, GET /api/Loan/get-total-balance/0", out)
	require.Contains(t, out, "loanId ")

	out, status = tt.run("resolve", "order-42/confirm", "not_happened", "-why", "no withdrawal")
	require.Equal(t, exitChanged, status, out)
	require.Regexp(t, `retry after \S+; now: in doubt, a check decides\n$`, out)
	answer := filepath.Join(t.TempDir(), "answer.json")
	require.NoError(t, os.WriteFile(answer, []byte(`{"id":"5f0f6d3e-8f3c-4f57-9d3b-0a1b2c3d4e5f"}`), 0o600))
	out, status = tt.run("resolve", "-why", "Loans.Withdrawals shows it", "-answer", answer,
		"order-42/confirm", "happened")
	require.Zero(t, status, out)
	out, _ = tt.run("show", "order-42/confirm")
	require.Contains(t, out, "with -correct")
	out, status = tt.run("resolve", "-correct", "-why", "seen twice", "-answer", answer, "order-42/confirm", "happened")
	require.Zero(t, status, out)
	require.NoError(t, tt.confirm())
	require.Equal(t, 1, tt.service.Executed("POST /api/Loan/confirm-withdrawal-invoice/{loanId}"))
	out, _ = tt.run("show", "order-42/confirm")
	for _, said := range []string{
		"sent 1 time", "in doubt: connection reset", "happened, by dora: Loans.Withdrawals shows it",
		"happened, by dora: seen twice", "a call has used the verdict",
	} {
		assert.Contains(t, out, said, "one look tells what happened")
	}
	out, _ = tt.run("-json", "show", "order-42/confirm")
	assert.Contains(t, out, `"resolvedBy":"dora"`)
}

func TestCommands(t *testing.T) {
	t.Parallel()
	tt := open(t)
	for _, test := range []struct {
		name   string
		args   []string
		status int
		want   string
	}{
		{"no command", nil, exitUsage, "usage:"},
		{"an unknown command", []string{"decide"}, exitUsage, `wrong usage of "decide"`},
		{"help", []string{"-h"}, 0, "usage:"},
		{"an unknown flag", []string{"-verbose", "review"}, exitUsage, "usage:"},
		{"a flag of no command", []string{"review", "-verbose"}, exitUsage, "review: flag provided but not defined"},
		{"no reason", []string{"resolve", "a", "happened"}, exitUsage, "resolve needs -why"},
		{"no reason to erase", []string{"erase", "a"}, exitUsage, "erase needs -why"},
		{"erase a customer", []string{"erase", "-why", "a", "8c1b5a6e-2f7d-4b5b-9a51-0c7a3f5d2e10"}, 0, "erased  0"},
		{"erase an address", []string{"erase", "-why", "a", "ada@example.com"}, exitFailed, "must be UUIDs"},
		{"none removed", []string{"removed", "webhooks"}, 0, "none"},
		{"no reason to drop", []string{"drop", "webhooks", "-all"}, exitUsage, "drop needs -why"},
		{"no reason to pause", []string{"pause"}, exitUsage, "pause needs -why"},
		{"no instruction", []string{"status"}, 0, "the log sends"},
		{"pause", []string{"pause", "-why", "doubled"}, 0, "  dora  doubled"},
		{"status", []string{"status"}, 0, "paused       20"},
		{"resume", []string{"resume"}, 0, "the log sends"},
		{"restored without a time", []string{"restored"}, exitUsage, "restored needs -since"},
		{"restored at a wrong time", []string{"restored", "-since", "noon"}, exitFailed, "since must be a time"},
		{"restored for a wrong time", []string{"restored", "-since", "14:05", "-for", "a day"}, exitFailed, "for must be"},
		{"restored", []string{"restored", "-since", "14:05", "-for", "1m"}, 0, "dora  the store is a copy of 20"},
		{"no audit", []string{"audit"}, exitFailed, "there was no audit yet"},
		{"an audit of wrong days", []string{"audit", "-from", "yesterday"}, exitFailed, "from must be a time"},
		{"an audit", []string{"audit", "-from", "2001-01-01", "-to", "2001-01-02"}, 0, "no difference"},
		{"the last audit", []string{"audit"}, 0, "2001-01-03 00:00:00"},
		{"an unknown state", []string{"keys", "-state", "in-doubt"}, exitFailed, "no key has this state"},
		{"no such file", []string{"resolve", "-why", "a", "-answer", "no.json", "a", "happened"}, exitFailed, "no.json"},
		{"no JSON", []string{"resolve", "-why", "a", "-answer", "main.go", "a", "happened"}, exitFailed, "must be JSON"},
		{"an unknown key", []string{"show", "order-41"}, exitChanged, "list the keys by their beginning"},
		{"an unknown inbox", []string{"dead", "none"}, exitChanged, `now: ["webhooks"]`},
		{"all keys", []string{"keys", "-prefix", "order-42/"}, 0, "in doubt, a check decides"},
		{"dead letters", []string{"dead", "webhooks"}, 0, "no loan [31myet"},
		{"as JSON", []string{"-json", "dead", "webhooks"}, 0, `"deadLetters":[{`},
		{"another event", []string{"dead", "webhooks", "-event", "other"}, 0, "none"},
		{
			"drop of another event",
			[]string{"drop", "webhooks", "-all", "-event", "other", "-why", "a test"},
			exitChanged, "no dead letter",
		},
		{"sessions", []string{"sessions"}, 0, "acme     true"},
		{"sign in", []string{"signin", "acme"}, 0, "signed in  1"},
		{"sign in without a name", []string{"signin"}, exitUsage, `wrong usage of "signin"`},
		{"too many words", []string{"show", "a", "b"}, exitUsage, `wrong usage of "show"`},
		{"sign in at none", []string{"signin", "none"}, exitChanged, `now: ["acme"]`},
		{"no sign-in waits", []string{"signin", "-code", "1", "acme"}, exitChanged, "no sign-in waits for a code"},
		{"redrive none", []string{"redrive", "webhooks", "9"}, exitChanged, "no dead letter"},
		{"drop", []string{"drop", "webhooks", "-all", "-why", "a test"}, 0, "drop  1"},
		{"removed", []string{"removed", "webhooks"}, 0, "dora  a test"},
	} {
		t.Run(test.name, func(t *testing.T) {
			out, status := tt.run(test.args...)
			assert.Equal(t, test.status, status, out)
			assert.Contains(t, out, test.want)
			assert.NotContains(t, out, "\x1b")
		})
	}
}

// A script learns from the exit status whether an audit has found differences.
func TestAuditFailsWithADifference(t *testing.T) {
	t.Parallel()
	tt := open(t)
	loan := tt.service.Snapshot().Loans[0].ID
	tt.service.UpdateLoan(loan, func(l *lendingtest.Loan) {
		l.Withdrawals = append(l.Withdrawals, l.Withdrawals[0], l.Withdrawals[0])
	})
	// The age of a key lacks the time of its save, so an audit until now can leave out the newest key.
	until := time.Now().UTC().Add(24 * time.Hour).Format(time.DateOnly)
	out, status := tt.run("audit", "-from", "2001-01-01", "-to", until)
	assert.Equal(t, exitFailed, status, out)
	assert.Regexp(t, `unexplained +loan +`+loan+` +withdrawals +2 `, out)
	assert.Contains(t, out, "the audit has found differences")
	out, status = tt.run("-json", "audit", "-from", "2001-01-01", "-to", until)
	assert.Equal(t, exitFailed, status, out)
	assert.Contains(t, out, `"found":{"unexplained":1}`)
	assert.NotContains(t, out, `"done"`)
}

// slow answers after two minutes, as a backend that reads a large log.
type slow struct{}

func (slow) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case <-time.After(2 * time.Minute):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(`{"done":1}`))}, nil
}

func TestEraseWaitsForALargeLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		c := client{url: "http://127.0.0.1/ops/", out: &out, doer: &http.Client{Timeout: time.Minute, Transport: slow{}}}
		require.NoError(t, c.command(t.Context(), []string{"erase", "-why", "request 4711", "a"}))
		require.Error(t, c.command(t.Context(), []string{"redrive", "-all", "webhooks"}))
	})
}

// A script learns from the exit status whether every part works.
func TestHealthFailsWithAPart(t *testing.T) {
	t.Parallel()
	tt := open(t)
	out, status := tt.run("health")
	require.Zero(t, status, out)
	require.Contains(t, out, "idempotency log  ready")
	tt.close()
	out, status = tt.run("health")
	assert.Equal(t, exitFailed, status, out)
	assert.Contains(t, out, "inbox webhooks   ready")
	assert.Contains(t, out, "1 of 3 parts cannot work")
}

// A list that is missing is not empty: nobody knows whether a key needs a person, or whether a part works.
func TestMissingListIsAFailure(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"error":"lending/ops: a store does not answer"}`: "a store does not answer",
		`{}`:            "check -url",
		`{"keys":null}`: "check -url",
	} {
		for _, status := range []int{http.StatusOK, http.StatusServiceUnavailable} {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(status)
				_, _ = io.WriteString(w, body)
			}))
			tt := &terminal{T: t, url: server.URL}
			for _, command := range []string{"health", "review", "status", "sessions"} {
				out, exit := tt.run(command)
				assert.Equal(t, exitFailed, exit, "%s of %s", command, body)
				if status != http.StatusOK {
					assert.Contains(t, out, want)
				}
			}
			server.Close()
		}
	}
}

// A GET has no body, which some proxies refuse, and the token goes to no other address and not over
// the network in clear text.
func TestRequestsAreCareful(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	var body []byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		body, _ = io.ReadAll(r.Body)
		http.Redirect(w, r, "/sign-in", http.StatusFound)
	}))
	defer server.Close()
	at := func(url string) string {
		var out bytes.Buffer
		status := run(t.Context(), []string{"-url", url, "sessions"}, token, strings.NewReader(""), &out, &out)
		require.Equal(t, exitFailed, status)
		return out.String()
	}
	assert.Contains(t, at(server.URL), "302 Found; check -url and LENDING_OPS_TOKEN")
	assert.EqualValues(t, 1, requests.Load(), "it follows no redirect")
	assert.Empty(t, body)
	for _, url := range []string{"http://backend.example/ops", "http://192.0.2.1/ops", "http://localhost.example/ops"} {
		assert.Contains(t, at(url), "use https in -url")
	}
}

// TestResolveSaysHowManySendsThePersonSaw: the backend refuses a verdict of an older look.
func TestResolveSaysHowManySendsThePersonSaw(t *testing.T) {
	t.Parallel()
	var body struct{ Sends int }
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.NoError(t, json.NewDecoder(r.Body).Decode(&body))
		_, _ = io.WriteString(w, "{}")
	}))
	defer server.Close()
	tt := &terminal{T: t, url: server.URL}
	out, status := tt.run("resolve", "-sends", "3", "-why", "seen", "order-42/confirm", "not_happened")
	require.Zero(t, status, out)
	assert.Equal(t, 3, body.Sends)
}

// TestShowTellsOfChangesThatWereNotKept: a history keeps its first and its last changes.
func TestShowTellsOfChangesThatWereNotKept(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"history":[{"says":"did not happen","dropped":64},{"says":"sent, number 35"}]}`)
	}))
	defer server.Close()
	out, status := (&terminal{T: t, url: server.URL}).run("show", "order-42/confirm")
	require.Zero(t, status, out)
	assert.Equal(t, "  did not happen, later changes not kept: 64\n  sent, number 35\n", out)
}

func TestBackendThatRefuses(t *testing.T) {
	t.Parallel()
	tt := open(t)
	var stdout, stderr bytes.Buffer
	status := run(t.Context(), []string{"-url", tt.url, "review"}, "wrong", strings.NewReader(""), &stdout, &stderr)
	assert.Equal(t, exitFailed, status)
	assert.Contains(t, stderr.String(), "401 Unauthorized; check -url and LENDING_OPS_TOKEN")
	assert.NotContains(t, stderr.String(), "wrong")
	tt.url = "http://127.0.0.1:1/ops"
	out, status := tt.run("review")
	assert.Equal(t, exitFailed, status, out)
	tt.url = tt.service.URL
	out, status = tt.run("health")
	assert.Equal(t, exitFailed, status, out)
}

func TestTimeOfTheDayIsInThePast(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 23, 14, 30, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"14:05": "2026-11-23 14:05:00", "23:59": "2026-11-22 23:59:00", "noon": "noon",
		"2026-11-22 15:04:05": "2026-11-22 15:04:05",
	} {
		assert.Equal(t, want, lastTime(text, now))
	}
}
