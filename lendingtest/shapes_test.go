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
	"github.com/lendingapi/lending-go/shapes"
)

// learnt is the JSON of what a real service has answered to a route.
func learnt(t *testing.T, route string, bodies ...string) []byte {
	t.Helper()
	seen := shapes.Seen{}
	for _, body := range bodies {
		require.True(t, seen.Learn(route, []byte(body)), body)
	}
	text, err := json.Marshal(seen)
	require.NoError(t, err)
	return text
}

// The fake has the fields that were seen, and no field that it has assumed and nobody has seen.
func TestShapes(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	const getLoan = "GET /api/Loan/get-loan/{loanId}"
	const getApplication = "GET /api/Application/get-application/{applicationId}"
	for _, test := range []struct {
		name, route string
		bodies      []string
		want        string // with LOAN, APPLICATION and CUSTOMER for identifiers
	}{
		{
			"the own value under the same name", getLoan,
			[]string{`{"amount":1.5,"Balance":2.5,"isEnabled":false}`},
			`{"amount":10000.00,"Balance":0.00,"isEnabled":true,"id":"LOAN","applicationId":"APPLICATION"}`,
		},
		{"a whole number", getLoan, []string{`{"amount":7}`}, `{"amount":10000,"id":"LOAN","applicationId":"APPLICATION"}`},
		{
			"an amount in a string", getLoan,
			[]string{`{"amount":"7.00"}`},
			`{"amount":"10000.00","id":"LOAN","applicationId":"APPLICATION"}`,
		},
		{
			"a time with a zone", getApplication,
			[]string{`{"createdUTC":"2026-01-01T00:00:00Z"}`},
			`{"createdUTC":"2026-11-20T12:00:00Z"}`,
		},
		{
			"a time without", getApplication,
			[]string{`{"createdUTC":"2026-01-01T00:00:00"}`},
			`{"createdUTC":"2026-11-20T12:00:00"}`,
		},
		{
			"the identifier under another name", getApplication,
			[]string{`{"applicationId":"5f1c7a90-2f7b-4e0a-9b66-7c8d9e0f1a2b"}`},
			`{"applicationId":"APPLICATION"}`,
		},
		{
			"a whole second with an offset", getApplication,
			[]string{`{"createdUTC":"2026-01-01T09:00:00+02:00"}`},
			`{"createdUTC":"2026-11-20T14:00:00+02:00"}`,
		},
		{
			"milliseconds without a zone", getApplication,
			[]string{`{"createdUTC":"2026-01-01T09:00:00.123"}`},
			`{"createdUTC":"2026-11-20T12:00:00.000"}`,
		},
		{"a day", getApplication, []string{`{"createdUTC":"2026-01-01"}`}, `{"createdUTC":"2026-11-20"}`},
		{
			"the word that was seen", getApplication,
			[]string{`{"status":"application created"}`},
			`{"status":"application created"}`,
		},
		{"a type that this model does not have", getApplication, []string{`{"riskType":"Low"}`}, `{"riskType":"Low"}`},
		{
			"a place below the maximum depth", getApplication,
			[]string{`{"agentId":` + strings.Repeat(`[`, 17) + strings.Repeat(`]`, 17) + `}`},
			`{"agentId":` + strings.Repeat(`[`, 15) + `null` + strings.Repeat(`]`, 15) + `}`,
		},
		{"always null", getApplication, []string{`{"status":null}`}, `{"status":null}`},
		{
			"a record within", getApplication,
			[]string{`{"extraInformation":{"ada@example.com":"1"},"deep":{"list":[]}}`},
			`{"extraInformation":{"years":"7"},"deep":{"list":[]}}`,
		},
		{"another kind altogether", getApplication, []string{`[]`}, `[]`},
		{
			"a status that is a record", "GET /api/Application/application-status/{applicationId}",
			[]string{`{"status":null}`},
			`{"status":null}`,
		},
		{
			"a list", "GET /api/Application/get-customer-applications/{customerId}",
			[]string{`[{"status":"x"}]`},
			`[{"status":"x"}]`,
		},
		{"a list that was always empty", "GET /api/Application/get-customer-applications/{customerId}", []string{`[]`}, ""},
		{
			"a page", "GET /api/Loan/get-transactions-paged/{loanId}",
			[]string{`{"data":[{"type":"x"}],"totalCount":1}`},
			`{"data":[{"type":"x"}],"totalCount":1}`,
		},
		{
			"published, and never seen", "GET /api/Loan/get-withdrawals/{loanId}",
			[]string{`{"more":null}`},
			`{"data":[],"totalCount":0,"more":null}`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, lendingtest.WithClock(func() time.Time { return noon }),
				lendingtest.WithShapes(learnt(t, test.route, test.bodies...)))
			app := r.AddApplication(lendingtest.Application{ExtraInformation: map[string]string{"years": "7"}})
			loan := r.AddLoan(lendingtest.Loan{ApplicationID: app.ID, Transactions: []lendingtest.Transaction{{Type: "fee"}}})
			fill := strings.NewReplacer("{loanId}", loan.ID, "{applicationId}", app.ID, "{customerId}", app.CustomerID,
				"LOAN", loan.ID, "APPLICATION", app.ID, "CUSTOMER", app.CustomerID).Replace
			answer := r.get(fill(test.route[len("GET "):])).ok()
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
	r := newRig(t, lendingtest.WithShapes(learnt(t, route,
		`{"a":true,"b":7,"c":1.5,"d":"x","e":"5f1c7a90-2f7b-4e0a-9b66-7c8d9e0f1a2b","f":"1.50","g":"2026-01-01",
		"h":"2026-01-01T00:00:00Z","i":"2026-01-01T00:00:00","j":{"k":3,"l":[{"m":false}]},"some":1,"n":null}`,
		`{"a":true,"b":7,"c":1.5,"d":"x","e":"5f1c7a90-2f7b-4e0a-9b66-7c8d9e0f1a2b","f":"1.50","g":"2026-01-01",
		"h":"2026-01-01T00:00:00.5-05:00","i":"2026-01-01T00:00:00","j":{"k":3,"l":[{"m":false}]},"n":1}`)))
	learntAgain, some, null := shapes.Seen{}, 0, 0
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
	old := newRig(t, lendingtest.WithShapes([]byte(`{"`+route+
		`":{"kinds":{"object":1},"fields":{"at":{"kinds":{"time":1}},"local":{"kinds":{"time without a zone":1}}}}}`)))
	record := old.get("/api/Loan/get-loan/" + old.AddLoan(lendingtest.Loan{}).ID).object()
	assert.Regexp(t, `:00\.0000000Z$`, record["at"], "nobody has learned the form of its times")
	assert.Regexp(t, `:00\.0000000$`, record["local"])
	r.post("/api/Authenication/login", `{"username":"`+lendingtest.AdministratorUsername+`","password":"`+
		lendingtest.AdministratorPassword+`"}`).ok()
	assert.Panics(t, func() { lendingtest.New(lendingtest.WithShapes([]byte("[]"))) })
}
