package lendingtest_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/lendingtest"
)

// A fact changes the responses of its rule, and an empty value restores the model.
func TestServiceAnswersAsATestAssumes(t *testing.T) {
	t.Parallel()
	const loan, email = "GET Loan/get-loan/" + unknownID, "GET Customer/get-customer-by-email?email=x@example.com"
	const again = "POST Application/create-customer?{customer} {ann}"
	const ofAnn = "GET Customer/get-customer-by-email?email=ann@example.com&{customer}"
	const process = "GET Application/process-application/{offered}"
	const wrong = `POST Loan/confirm-withdrawal-invoice/{withdrawing} {"amount":2500,"advanceRate":0.8,` +
		`"dateUTC":"2024-02-03T00:00:00Z","otp":"x"}`
	const login = `POST Authenication/login {"username":"x","password":"y"}`
	for _, test := range []struct{ fact, value, request, want string }{ // want: status, content type and body
		{"absence: get-loan", "400 problem record", loan, `400 application/json.* \{"status":400,.*LoanNotFound.*`},
		{"absence", "204 empty", loan, `204  `},
		{"absence: get-loan", "404 text/html", loan, `404 text/html <h1>Not Found</h1>`},
		{"absence: get-customer-by-email", "404 problem record", email, `404 application/json.* \{"status":404,.*`},
		{"absence: get-customer-by-email", "200 {}", email, `200 application/json \{\}`},
		{"absence: get-customer-by-email", "404 other JSON", email, `404 application/json .*`},
		{"malformed identifier", "404", "GET Loan/get-loan/7", `404 .*InvalidGuid.*`},
		{"gateway", "502 text/html", "GET x", `502 text/html <h1>Bad Gateway</h1>`},
		{"problem record: 404", "application/problem+json", loan, `404 application/problem\+json .*LoanNotFound.*`},
		{"problem record: 404", "text/html other, empty", loan, `404 text/html <h1>Not Found</h1>`},
		{"problem record: 404", "application/json dictionary", loan, `404 application/json \{"errors":\{"":\["There .*`},
		{"malformed identifier", "400 other JSON", "GET Loan/get-loan/7", `400 application/json \{"success":false\}`},
		{"wrong password", "200 without a token", login, `200 application/json \{"requiresTwoFactor":false\}`},
		{"empty list", "200 null", "GET Webhook/get-registered-webhooks" + mine, `200 application/json null`},
		{"wrong one-time password", "200 with a refusal", wrong, `200 application/json \{"success":false\}`},
		{"duplicate customer", "200 with a second customer", again, `200 .*"id":"00000001-0001-4000-8000-000000000002".*`},
		{"e-mail identifies", "another id", ofAnn, `200 .*"id":"99999999-.*`},
		{"second processing", "400", process, `400 .*SecondProcessing.*`},
		{"second processing", "200 with the same id", process, `200 .*"00000001-0003-4000-8000-000000000002"`},
		{"process answers", "another id", process, `200 .*"99999999-0003-4000-8000-000000000003"`},
		{"size limit", "10 bytes, 413 text/html", login, `413 text/html .*`},
		{"size limit", "10 bytes, 413", login, `413 application/json.*RequestTooLarge.*`},
	} {
		t.Run(test.fact+" "+test.value, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			request := r.filled(test.request, new(string))
			model := r.request(request).status
			r.Assume(test.fact, test.value)
			assert.Regexp(t, "^"+test.want+"$", r.request(request).shown())
			r.Assume(test.fact, "")
			assert.Equal(t, model, r.request(request).status)
		})
	}
	r := newRig(t)
	assert.PanicsWithValue(t, `lendingtest: no fact "presence"; lendingtest/RECIPES.md lists the facts`,
		func() { r.Assume("presence", "404") })
	for _, wrong := range [][2]string{
		{"absence", "missing"},
		{"absence: get-lone", "404 empty"},
		{"absence", "404 problm record"},
		{"absence", "999"},
		{"second processing", "200 with same id"},
		{"pages", "bananas"},
		{"take cap", "0"},
		{"late execution", "9"},
	} {
		assert.Panics(t, func() { r.Assume(wrong[0], wrong[1]) }, wrong)
	}
	r.Assume("absence: application-offer of an application without an offer", "404 problem record")
	assert.Panics(t, func() { lendingtest.New(lendingtest.WithService([]byte(`{"version":2}`))) })
}

// A rate limit counts the requests of a minute, and says when there is room.
func TestRateLimitCounts(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	r := newRig(t, lendingtest.WithClock(func() time.Time { return noon }))
	r.Assume("rate limit", "2 a minute")
	r.post("/api/Application/create-customer", "{}")
	r.Advance(20 * time.Second)
	r.customer()
	again := r.post("/api/Application/create-customer", "{}")
	assert.Equal(t, http.StatusTooManyRequests, again.status)
	assert.Equal(t, "40", again.header.Get("Retry-After"))
	r.Advance(40 * time.Second)
	assert.Equal(t, http.StatusBadRequest, r.post("/api/Application/create-customer", "{}").status)
	assert.Equal(t, http.StatusTooManyRequests, r.post("/api/Application/create-customer", "{}").status)
	assert.Equal(t, 1, r.Executed("POST /api/Application/create-customer"))
}

// The request log names the assumption of a response, and OnlySeen refuses the response.
func TestAssumedResponsesAreMarked(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, path, assumed, measure string }{
		{"a refusal", "/api/Loan/get-loan/" + unknownID, "absence", "Run lending-probe, and"},
		{"a record", "/api/Loan/get-loan/LOAN", "fields", "no record to measure with"},
		{"an empty list", "/api/Application/get-customer-applications/CUSTOMER", "empty list", "-create"},
		{"a rule that nobody can measure", "/api/Application/process-application/APP", "status words", "Ask the owner"},
		{"a path that does not exist", "/api/x", "gateway", ""},
		{"a published rule", "/api/Webhook/get-all-subscriptions", "", ""},
		{"a scalar", "/api/Loan/is-loan-closed/LOAN", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			for _, strict := range []bool{false, true} {
				opts := []lendingtest.Option{}
				if strict {
					opts = append(opts, lendingtest.OnlySeen())
				}
				r := newRig(t, opts...)
				loan := r.AddLoan(lendingtest.Loan{})
				ids := strings.NewReplacer("LOAN", loan.ID, "APP", loan.ApplicationID,
					"CUSTOMER", r.AddCustomer(lendingtest.Customer{}).ID)
				answer := r.get(ids.Replace(test.path))
				assert.Equal(t, test.assumed, r.Requests()[0].Assumed)
				if strict && test.assumed != "" {
					answer.refused(http.StatusNotImplemented, "OnlySeen")
					assert.Contains(t, answer.body, test.assumed)
					assert.Contains(t, answer.body, test.measure)
				} else {
					assert.NotEqual(t, http.StatusNotImplemented, answer.status)
				}
			}
		})
	}
	r := newRig(t, lendingtest.OnlySeen(),
		lendingtest.WithService([]byte(`{"version":1,"facts":{"absence: get-loan":"404 problem record"}}`)))
	r.get("/api/Loan/get-loan/"+unknownID).refused(404, "LoanNotFound")
	assert.Empty(t, r.Requests()[0].Assumed)
}

// A sender that redelivers stops after a success, or after the last retry.
func TestFailedWebhooksAreDeliveredAgain(t *testing.T) {
	t.Parallel()
	receiver := newReceiver(t)
	r := newRig(t, lendingtest.WithLoopbackReceivers())
	sub := r.AddSubscription(lendingtest.Subscription{WebhookURI: receiver.URL, PartnerID: lendingtest.PartnerID})
	r.SetDeliveryMode(lendingtest.DeliveryMode{Retries: 2})
	receiver.answer(http.StatusInternalServerError)
	r.Emit("WB_Send_Sms", lendingtest.PartnerID, map[string]any{"text": "Hello"})
	r.wait()
	bodies, times := receiver.verified(sub.Secret), map[string]bool{}
	require.Len(t, bodies, 3)
	for _, body := range bodies {
		var e envelope
		require.NoError(t, json.Unmarshal(body, &e))
		times[e.CreationTimeUtc], e.CreationTimeUtc = true, ""
		assert.Equal(t, envelope{lendingtest.PartnerID, "WB_Send_Sms", "", map[string]any{"text": "Hello"}}, e)
	}
	assert.Len(t, times, 3, "a retry has a creation time of its own, and so another body and signature")
	receiver.answer(http.StatusNoContent)
	loan := r.AddLoan(lendingtest.Loan{})
	for _, id := range []string{loan.ID, loan.ApplicationID, loan.CustomerID} {
		r.UpdateSubscription(sub.ID, func(s *lendingtest.Subscription) { s.PartnerID, s.CustomerID = "", loan.CustomerID })
		r.Emit("WB_Partner_Request", id, nil)
	}
	r.wait()
	assert.Len(t, r.Deliveries(), 6)
	assert.Panics(t, func() { r.Emit("WB_Unknown", loan.ID, nil) })
	assert.Panics(t, func() { r.Emit("WB_Send_Sms", unknownID, nil) })
}

// The server closes connections like the real service: after each response, or idle ones without a word.
func TestConnectionsAreClosed(t *testing.T) {
	t.Parallel()
	for fact, told := range map[string]bool{"in a row": true, "after 2s": false} {
		t.Run(fact, func(t *testing.T) {
			t.Parallel()
			known := `{"version":1,"facts":{"keep-alive: ` + fact + `":"new connection"}}`
			r := serverRig(t, lendingtest.WithService([]byte(known)))
			_, closes, rest := r.raw("GET /api/x HTTP/1.1\r\nHost: localhost\r\n\r\n")
			_, err := io.Copy(io.Discard, rest) // until the server closes
			require.NoError(t, err)
			assert.Equal(t, told, closes)
		})
	}
}
