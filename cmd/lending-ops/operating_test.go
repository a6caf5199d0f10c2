package main

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
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

// Each command of docs/operating.md works, in its order, at a backend with a key in review, dead letters, and a
// session that waits for a code.
func TestCommandsOfTheOperator(t *testing.T) {
	t.Parallel()
	service := lendingtest.NewServer()
	t.Cleanup(service.Close)
	log := fake.Must(idempotency.NewLog(store.NewMemory(), &idempotency.Options{MaxLateness: time.Nanosecond}))
	client := fake.SignIn(t, service.Service, nil, lending.WithIdempotency(log))
	application := service.AddApplication(lendingtest.Application{Offer: &lendingtest.Offer{
		Amount: 100_000, ExpiresUTC: lendingtest.Timestamp{Time: time.Now().Add(time.Hour)},
	}})
	service.Fail("POST /api/ApplicationApproval/add-company-details/{applicationId}", lendingtest.Fault{ResetAfter: true})
	keyed := lending.WithIdempotencyKey(t.Context(), "order-42/company")
	id := fake.Must(lending.ParseApplicationID(application.ID))
	company := lending.CompanyDataRequest{Extra: map[string]string{"name": "Lovelace"}}
	require.Error(t, client.Approval.AddCompanyDetails(keyed, id, company))
	_, err := log.Check(t.Context(), client)
	require.NoError(t, err)
	inbox := webhook.NewMemoryInbox()
	for _, event := range []string{`{"webhookEvent":"WB_Loan_Created"}`, `{"webhookEvent":"WB_Loan_Closed"}`} {
		require.NoError(t, inbox.Put(t.Context(), fake.Must(webhook.Parse([]byte(event)))))
		require.NoError(t, inbox.DeadLetter(t.Context(), fake.Must(inbox.Take(t.Context())), errors.New("no loan yet")))
	}
	person := fake.Must(lending.New(service.URL, lending.WithCredentials(
		lending.Credentials{Username: lendingtest.Username, Password: lending.NewSecret(lendingtest.Password)})))
	t.Cleanup(person.Close)
	server := httptest.NewServer(ops.Handler(ops.Options{
		Log: log, Inboxes: map[string]webhook.DeadLetters{"webhooks": inbox},
		Sessions: map[string]*lending.Session{"service": person.Session()}, Client: client,
		Who: func(*http.Request) (string, bool) { return "dora", true }, Logger: slog.New(slog.DiscardHandler),
	}))
	t.Cleanup(server.Close)
	tt := &terminal{T: t, url: server.URL + "/ops", service: service}

	shown := map[string]string{ // by the beginning of the command
		"health": "idempotency log  ready", "pause": "doubled", "status": "doubled", "resume": "the log sends",
		"review": "order-42/company", "show": "GET /api/Application/get-application/" + application.ID,
		"resolve": "happened", "sessions": "service", "signin service": "sign in again with the code",
		"signin -code": "signed in  1", "dead": "no loan yet", "redrive": "redrive  1", "drop": "drop  1",
		"audit -from": "no difference",
	}
	for _, line := range commandsOf(t, "../../docs/operating.md") {
		t.Run(line, func(t *testing.T) {
			command, isOps := strings.CutPrefix(line, "lending-ops ")
			if !isOps {
				line = strings.ReplaceAll(line, "8c1b5a6e-2f7d-4b5b-9a51-0c7a3f5d2e10", application.ID)
				assert.Contains(t, fetched(t, service, line), application.ID)
				return
			}
			words := regexp.MustCompile(`"[^"]*"|\S+`).FindAllString(command, -1)
			for i, word := range words {
				words[i] = strings.ReplaceAll(strings.Trim(word, `"`), "123456", service.TwoFactorCode(lendingtest.Username))
			}
			out, status := tt.run(words...)
			wanted := exitChanged
			if command != "signin service" {
				wanted = 0
			}
			assert.Equal(t, wanted, status, out)
			for beginning, text := range shown {
				if strings.HasPrefix(command, beginning) {
					assert.Contains(t, out, text)
					delete(shown, beginning)
				}
			}
		})
	}
	assert.Empty(t, shown, "commands that the page lacks")
}

// commandsOf returns the commands for a terminal in a page, without settings of the environment.
func commandsOf(t *testing.T, page string) (lines []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		for line := range strings.Lines(block[1]) {
			if !strings.HasPrefix(line, "export ") {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
	}
	return lines
}

// fetched returns the output of a line with curl.
func fetched(t *testing.T, service *lendingtest.Server, line string) string {
	t.Helper()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is missing: apt-get install curl runs this")
	}
	shell := exec.CommandContext(t.Context(), "sh", "-c", line)
	shell.Env = append(os.Environ(), "LENDING_URL="+service.URL, "LENDING_TOKEN="+service.Token(lendingtest.Username))
	out, err := shell.CombinedOutput()
	require.NoError(t, err, string(out))
	return string(out)
}
