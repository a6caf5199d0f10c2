package lendingtest_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/probe"
)

// learnt is a service.json with what a real service has answered to a route.
func learnt(t *testing.T, route string, bodies ...string) []byte {
	t.Helper()
	seen := probe.Seen{}
	for _, body := range bodies {
		for i := range 3 { // records that differ in a space
			body = strings.ReplaceAll(body, "{", "{"+strings.Repeat(" ", i))
			require.True(t, seen.Learn(route, []byte(body)), body)
		}
	}
	text, err := json.Marshal(map[string]any{"version": 1, "shapes": seen})
	require.NoError(t, err)
	return text
}

// The fake has the fields that were seen, and no field that it has assumed and nobody has seen.
func TestShapes(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	const id = `"id":"LOAN","applicationId":"APPLICATION"`
	deep := func(n int, within string) string { return strings.Repeat(`[`, n) + within + strings.Repeat(`]`, n) }
	const loan, application = "Loan/get-loan/{loanId}", "Application/get-application/{applicationId}"
	const list = "Application/get-customer-applications/{customerId}"
	for _, test := range []struct {
		action, body, want string // with LOAN, APPLICATION and CUSTOMER for identifiers
	}{
		{
			loan, `{"amount":1.5,"Balance":2.5,"isEnabled":false}`,
			`{"amount":10000.00,"Balance":0.00,"isEnabled":true,` + id + `}`,
		},
		{loan, `{"amount":7}`, `{"amount":10000,` + id + `}`},
		{loan, `{"amount":"7.00"}`, `{"amount":"10000.00",` + id + `}`},
		{application, `{"createdUTC":"2026-01-01T00:00:00Z"}`, `{"createdUTC":"2026-11-20T12:00:00Z"}`},
		{application, `{"createdUTC":"2026-01-01T00:00:00"}`, `{"createdUTC":"2026-11-20T12:00:00"}`},
		{application, `{"createdUTC":"2026-01-01T09:00:00+02:00"}`, `{"createdUTC":"2026-11-20T14:00:00+02:00"}`},
		{application, `{"createdUTC":"2026-01-01T09:00:00.123"}`, `{"createdUTC":"2026-11-20T12:00:00.000"}`},
		{application, `{"createdUTC":"2026-01-01"}`, `{"createdUTC":"2026-11-20"}`},
		{application, `{"applicationId":"5f1c7a90-2f7b-4e0a-9b66-7c8d9e0f1a2b"}`, `{"applicationId":"APPLICATION"}`},
		{application, `{"status":"application created"}`, `{"status":"application created"}`},
		{application, `{"riskType":"Low"}`, `{"riskType":"Low"}`}, // a type that this model does not have
		{application, `{"agentId":` + deep(17, "") + `}`, `{"agentId":` + deep(15, "null") + `}`},
		{application, `{"status":null}`, `{"status":null}`},
		{
			application, `{"extraInformation":{"ada@example.com":"1"},"deep":{"list":[]}}`,
			`{"extraInformation":{"years":"7"},"deep":{"list":[]}}`,
		},
		{application, `[]`, `[]`}, // another kind altogether
		{"Application/application-status/{applicationId}", `{"status":null}`, `{"status":null}`},
		{list, `[{"status":"application_created"}]`, `[{"status":"application_created"}]`},
		{list, `[]`, ""},
		{
			"Loan/get-transactions-paged/{loanId}", `{"data":[{"type":"FEE"}],"totalCount":1}`,
			`{"data":[{"type":"FEE"}],"totalCount":1}`,
		},
		{"Loan/get-withdrawals/{loanId}", `{"more":null}`, `{"data":[],"totalCount":0,"more":null}`}, // published, never seen
	} {
		t.Run(test.action+" "+test.body, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, lendingtest.WithClock(func() time.Time { return noon }),
				lendingtest.WithService(learnt(t, "GET /api/"+test.action, test.body)))
			app := r.AddApplication(lendingtest.Application{ExtraInformation: map[string]string{"years": "7"}})
			loan := r.AddLoan(lendingtest.Loan{ApplicationID: app.ID, Transactions: []lendingtest.Transaction{{Type: "fee"}}})
			fill := strings.NewReplacer("{loanId}", loan.ID, "{applicationId}", app.ID, "{customerId}", app.CustomerID,
				"LOAN", loan.ID, "APPLICATION", app.ID, "CUSTOMER", app.CustomerID).Replace
			answer := r.get("/api/" + fill(test.action)).ok()
			if test.want != "" {
				assert.JSONEq(t, fill(test.want), answer)
			}
		})
	}
}

// A made-up value is of the kind that was seen, and the same each time that its record is read.
func TestShapesMakeUp(t *testing.T) {
	t.Parallel()
	const route = "GET /api/Loan/get-loan/{loanId}"
	r := newRig(t, lendingtest.WithService(learnt(t, route,
		`{"a":true,"b":7,"c":1.5,"d":"x","e":"5f1c7a90-2f7b-4e0a-9b66-7c8d9e0f1a2b","f":"1.50","g":"2026-01-01",
		"h":"2026-01-01T00:00:00Z","i":"2026-01-01T00:00:00","j":{"k":3,"l":[{"m":false}]},"some":1,"n":null}`,
		`{"a":true,"b":7,"c":1.5,"d":"x","e":"5f1c7a90-2f7b-4e0a-9b66-7c8d9e0f1a2b","f":"1.50","g":"2026-01-01",
		"h":"2026-01-01T00:00:00.5-05:00","i":"2026-01-01T00:00:00","j":{"k":3,"l":[{"m":false}]},"n":1}`)))
	learntAgain, some, null := probe.Seen{}, 0, 0
	for range 40 {
		path := "/api/Loan/get-loan/" + r.AddLoan(lendingtest.Loan{}).ID
		body := r.get(path).ok()
		assert.Equal(t, body, r.get(path).ok())
		require.True(t, learntAgain.Learn(route, []byte(body)))
		record := r.get(path).object()
		if record["some"] != nil {
			some++
		}
		if record["n"] == nil {
			null++
		}
	}
	for name, kind := range map[string]string{
		"a": "boolean", "b": "integer", "c": "number", "d": "string", "e": "UUID", "f": "decimal string", "g": "date",
		"h": "time", "i": "time without a zone", "j": "object",
	} {
		assert.Equal(t, kind, learntAgain[route].Fields[name].Class(), name)
	}
	ends := slices.Sorted(maps.Keys(learntAgain[route].Fields["h"].Times))
	assert.Equal(t, []string{".0-05:00", "Z"}, ends, "a time ends as one that was seen")
	assert.Contains(t, learntAgain[route].Fields["i"].Times, "")
	inner := learntAgain[route].Fields["j"]
	assert.Equal(t, "boolean", inner.Fields["l"].Items.Fields["m"].Class())
	assert.Positive(t, some*(40-some), "an optional field is there at times")
	assert.Positive(t, null*(40-null), "null at times")
	old := newRig(t, lendingtest.WithService([]byte(`{"version":1,"shapes":{"`+route+
		`":{"kinds":{"object":1},"fields":{"at":{"kinds":{"time":1}},"local":{"kinds":{"time without a zone":1}}}}}}`)))
	record := old.get("/api/Loan/get-loan/" + old.AddLoan(lendingtest.Loan{}).ID).object()
	assert.Regexp(t, `:00\.0000000Z$`, record["at"], "nobody has learned the form of its times")
	assert.Regexp(t, `:00\.0000000$`, record["local"])
	r.post("/api/Authenication/login", `{"username":"`+lendingtest.AdministratorUsername+`","password":"`+
		lendingtest.AdministratorPassword+`"}`).ok()
	assert.Panics(t, func() { lendingtest.New(lendingtest.WithService([]byte("[]"))) })
}
