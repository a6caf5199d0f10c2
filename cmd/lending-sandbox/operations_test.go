package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/lendingtest"
)

// A visitor of the demonstration finds work for a person, and can do it.
func TestOperations(t *testing.T) {
	t.Parallel()
	s := start(t, "-ops")
	assert.Contains(t, s.out.String(), s.url+"/ops/")
	_, _, page := s.do(http.MethodGet, "/", "")
	assert.Contains(t, page, `<a href="ops/">`)
	status, _, page := s.do(http.MethodGet, "/ops/", "")
	require.Equal(t, http.StatusOK, status)
	assert.Contains(t, page, "Needs a person: 1 key.</span> In doubt: 2.")
	assert.Contains(t, page, "3 dead letters")
	assert.Contains(t, page, "signed in")
	for _, test := range []struct{ path, order string }{
		{"api/resolve", `{"key":"order-41/confirm","verdict":"happened","why":"Loans.Withdrawals shows both"}`},
		{"api/resolve", `{"key":"order-42/document","verdict":"happened","why":"the service's support has the document"}`},
		{"api/resolve", `{"key":"order-43/application","verdict":"happened","why":"Applications.ListByCustomer shows it",` +
			`"answer":"00000001-0002-4000-8000-000000000003"}`},
		{"api/inboxes/webhooks/redrive", `{"all":true,"event":"WB_Loan_Created"}`},
		{"api/inboxes/webhooks/drop", `{"all":true,"why":"nobody waits for the event"}`},
	} {
		t.Run(test.path, func(t *testing.T) {
			status, _, answer := s.do(http.MethodPost, "/ops/"+test.path, test.order)
			assert.Equal(t, http.StatusOK, status, answer)
		})
	}
	_, _, page = s.do(http.MethodGet, "/ops/", "")
	assert.Contains(t, page, "Needs a person: 0 keys.</span> In doubt: 0.")
	assert.Contains(t, page, "2 waiting, 0 running, <span>0 dead letters.")
}

// The lost application settles by itself, and the lost withdrawal is left to a person.
func TestDemonstrationChecks(t *testing.T) {
	t.Parallel()
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		handler, err := operated(t.Context(), service)
		require.NoError(t, err)
		for _, want := range []string{"1 key.</span> In doubt: 2", "1 key.</span> In doubt: 1", "2 keys.</span> In"} {
			page := httptest.NewRecorder()
			handler.ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/ops/", nil))
			assert.Contains(t, page.Body.String(), "Needs a person: "+want)
			time.Sleep(checkEvery + time.Second) //nolint:forbidigo // on the bubble's clock
		}
		assert.Equal(t, 1, service.Executed("POST /api/Application/create-application"))
	})
}

func TestNoOperationsUnlessAskedFor(t *testing.T) {
	t.Parallel()
	s := start(t)
	status, _, _ := s.do(http.MethodGet, "/ops/", "")
	assert.Equal(t, http.StatusNotFound, status)
	_, _, page := s.do(http.MethodGet, "/", "")
	assert.NotContains(t, page, `href="ops/"`)
	err := run(t.Context(), []string{"-ops", "-state", t.TempDir() + "/state"}, &strings.Builder{})
	require.ErrorContains(t, err, "leave out -state")
}

// The demonstration needs the token of the page.
func TestOperationsOfAPublicSandbox(t *testing.T) {
	t.Parallel()
	s := start(t, "-ops", "-public", "-control-token", "t0p")
	status, _, _ := s.do(http.MethodGet, "/ops/", "")
	require.Equal(t, http.StatusUnauthorized, status)
	status, _, _ = s.do(http.MethodGet, "/ops/", "", "Authorization Bearer t0p")
	assert.Equal(t, http.StatusOK, status)
}
