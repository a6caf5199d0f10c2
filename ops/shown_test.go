package ops_test

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/ops"
)

// No page, JSON or log record of the handler contains a value of a request, a response or an event.
func TestNothingConfidentialIsShown(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	var canaries []string
	canary := func() string {
		canaries = append(canaries, fmt.Sprintf("c4n4ry%02d", len(canaries)))
		return canaries[len(canaries)-1]
	}
	for range 5 {
		b.service.Fail("POST /api/Application/create-customer", lendingtest.Fault{ResetAfter: true})
		ctx := lending.WithIdempotencyKey(t.Context(), fmt.Sprint("order-", len(canaries)))
		_, err := b.client.Applications.CreateCustomer(ctx, lending.UserRequest{
			FirstName: canary(), LastName: canary(), Email: canary() + "@example.com",
			Password: lending.NewSecret(canary()), MobileNumber: "(415) 555-0100",
			Extra: map[string]string{canary(): canary()},
		})
		require.Error(t, err)
		value := canary()
		b.setAside(errors.New("cannot mail "+value),
			fmt.Sprintf(`{"webhookEvent":"a","data":{"ssn":%q,"mail":%q}}`, canary(), value))
	}
	require.GreaterOrEqual(t, len(canaries), 40)
	_, text := b.post("api/resolve", map[string]any{
		"key": "order-0", "verdict": "happened", "why": "seen", "answer": map[string]string{"a": canary()},
	})
	all := text + b.actions.String()
	for _, path := range []string{
		"", "?prefix=order", "api/keys", "api/key?key=order-0", "api/session", "api/counts", "api/health", inboxPath,
	} {
		_, text := b.send(http.MethodGet, path, nil, http.Header{"X-Person": {"another"}})
		all += text
	}
	require.Contains(t, all, "order-0")
	for _, value := range canaries {
		assert.NotContains(t, all, value)
	}
}

// An open page gets the sections that an action has changed.
func TestPageFollowsActions(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	b.setAside(nil, event("WB_Loan_Created", 1))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.address+"events?event=", nil)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	lines := bufio.NewReader(response.Body)
	next := func(part string) {
		for {
			line, err := lines.ReadString('\n')
			require.NoError(t, err)
			if strings.Contains(line, part) {
				return
			}
		}
	}
	next("WB_Loan_Created")
	b.act(inboxPath+"/drop", map[string]any{"all": true, "why": "a test"})
	next("No dead letters.")
}

// A server with an open page can shut down.
func TestShutdownEndsOpenPages(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(ops.Handler(ops.Options{}))
	defer server.Close()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/ops/events", nil)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	require.True(t, lines.Scan())
	require.NoError(t, server.Config.Shutdown(t.Context()))
}

// The handler tells the state of the session without a sign-in.
func TestSession(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	text := b.read("api/session")
	require.JSONEq(t, `{"signedIn":false}`, text)
	assert.Zero(t, b.service.Executed("POST /api/Authenication/login"))
	require.NoError(t, b.client.Session().SignIn(t.Context()))
	text = b.read("api/session")
	assert.Contains(t, text, `"signedIn":true`)
	text = b.read("")
	assert.Contains(t, text, "signed in")
	assert.Contains(t, b.read("api/health"), `{"name":"session"}`)
}
