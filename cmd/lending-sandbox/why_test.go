package main

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/internal/test/steer"
	"github.com/lendingapi/lending-go/lendingtest"
)

// The page says why a call failed: the answer, and the rule that refused it.
func TestPageSaysWhy(t *testing.T) {
	s := start(t, "-log=false", "-control", "-read-lag", "1ms")
	s.signIn(device)
	control := steer.Control{URL: s.url + "/_control"}
	require.NoError(t, control.Post(t.Context(), "advance", map[string]string{"by": time.Second.String()}, nil))
	s.do(http.MethodPost, "/api/Application/create-customer", `{"email":"<b>nobody</b>"}`)
	var loan lendingtest.Loan
	require.NoError(t, control.Post(t.Context(), "add-loan", lendingtest.Loan{}, &loan))
	s.do(http.MethodGet, "/api/Loan/get-total-balance/"+loan.ID, "")

	_, _, page := s.do(http.MethodGet, "/", "")
	for _, want := range []string{
		`Rejected with <code>ValidationFailed</code>: See errors.`,
		`<li><code>email</code> <code>InvalidEmail</code> The field is not a valid e-mail address.</li>`,
		`&#34;totalBalance&#34;: 0.00`,
		"the assumption <code>fields</code> of docs/dev/assumptions.md",
		lendingtest.PartnerID, "-seed 1", "mean UTC", "come 1ms behind",
	} {
		assert.Contains(t, page, want)
	}
	assert.NotContains(t, page, "<b>nobody")

	for range shown {
		s.do(http.MethodGet, "/api/Loan/get-total-balance/"+loan.ID, "")
	}
	_, _, page = s.do(http.MethodGet, "/", "")
	assert.Contains(t, page, `id="request-4"`)
	assert.NotContains(t, page, `id="request-3"`, "the newest fifty")
	_, header, description := s.do(http.MethodGet, "/openapi.yaml", "")
	assert.Contains(t, header.Get("Content-Type"), "application/yaml")
	assert.Contains(t, description, "openapi: 3")
	require.NoError(t, control.Fail(t.Context(), "*", lendingtest.Fault{Status: 200, Body: []byte("no JSON"), Times: -1}))
	s.do(http.MethodPost, "/api/Authenication/refresh-token", "")
	_, _, page = s.do(http.MethodGet, "/", "")
	assert.Contains(t, page, "A planned fault hit this call: <code>{&#34;status&#34;:200,&#34;body&#34;:&#34;no JSON&#34;")
}
