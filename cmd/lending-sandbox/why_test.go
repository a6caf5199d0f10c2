package main

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/lendingtest/control"
)

// The page says why a call failed: the answer, the rule that refused it, and the method's documentation.
func TestPageSaysWhy(t *testing.T) {
	s := start(t, "-log=false", "-control", "-read-lag", "1ms")
	s.signIn(device)
	steer := control.Dial(s.url + "/_control/")
	sub := `{"webhookUri":"http://127.0.0.1:1/x"}`
	status, _, _ := s.do(http.MethodPost, "/api/Webhook/register?partnerId="+lendingtest.PartnerID, sub)
	require.Equal(t, http.StatusOK, status)
	require.NoError(t, steer.Advance(t.Context(), 1e9))
	_, _, secret := s.do(http.MethodGet, "/api/Webhook/get-subscription?partnerId="+lendingtest.PartnerID, "")
	require.Contains(t, secret, "whs_")
	s.do(http.MethodPost, "/api/Application/create-customer", `{"email":"<b>nobody</b>"}`)
	loan, err := steer.AddLoan(t.Context(), lendingtest.Loan{})
	require.NoError(t, err)
	s.do(http.MethodGet, "/api/Loan/get-total-balance/"+loan.ID, "")
	s.do(http.MethodPost, "/api/Authenication/refresh-token", "")

	_, _, page := s.do(http.MethodGet, "/", "")
	for _, want := range []string{
		`Rejected with <code>ValidationFailed</code>: See errors.`,
		`<li><code>email</code> <code>InvalidEmail</code> The field is not a valid e-mail address.</li>`,
		`href="https://pkg.go.dev/github.com/lendingapi/lending-go#ApplicationsService.CreateCustomer"`,
		`&#34;totalBalance&#34;: 0.00`, `&#34;secret&#34;: &#34;$SECRET&#34;`, `&#34;token&#34;: &#34;$TOKEN&#34;`,
		lendingtest.PartnerID, "-seed 1", "mean UTC", "come 1ms behind",
	} {
		assert.Contains(t, page, want)
	}
	assert.NotContains(t, page, "whs_")
	assert.NotContains(t, page, s.token)
	assert.NotContains(t, page, "<b>nobody")

	for _, test := range []struct{ query, has, hasNot string }{
		{"outcome=refused", "request-4", "request-3"},
		{"about=" + loan.CustomerID, "request-5", "request-4"},
		{"route=GET+/api/Loan/get-total-balance/%7BloanId%7D", "request-5", "request-6"},
		{"before=4", "request-3", "request-4"},
		{"route=x&outcome=x&before=x", "request-6", "nothing"},
	} {
		t.Run(test.query, func(t *testing.T) {
			_, _, page := s.do(http.MethodGet, "/?"+test.query, "")
			assert.Contains(t, page, fmt.Sprintf(`id=%q`, test.has))
			assert.NotContains(t, page, fmt.Sprintf(`id=%q`, test.hasNot))
		})
	}
	for range shown {
		s.do(http.MethodGet, "/api/Loan/get-total-balance/"+loan.ID, "")
	}
	_, _, page = s.do(http.MethodGet, "/", "")
	assert.Contains(t, page, "Older than 7<")
	_, header, description := s.do(http.MethodGet, "/openapi.yaml", "")
	assert.Contains(t, header.Get("Content-Type"), "application/yaml")
	assert.Contains(t, description, "openapi: 3")
	require.NoError(t, steer.Fail(t.Context(), "*", lendingtest.Fault{Status: 200, Body: []byte("secret"), Times: -1}))
	s.do(http.MethodPost, "/api/Authenication/refresh-token", "")
	_, _, page = s.do(http.MethodGet, "/", "")
	assert.Contains(t, page, "A planned fault hit this call: <code>{&#34;status&#34;:200,&#34;body&#34;:&#34;secret&#34;,")
	s.do(http.MethodGet, "/api/Loan/get-laon/"+loan.ID, "")
	_, _, wrong := s.do(http.MethodGet, "/", "")
	assert.Contains(t, wrong, "There is no such route; perhaps GET /api/Loan/get-loan/{loanId}.")
	assert.Contains(t, page, "<pre>not shown</pre>", "an answer of a sign-in that is no JSON")
}
