package guarantees_test

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/wire"
)

// extra is a member without a published field, with more digits than a float64 holds.
const extra = `"Wat\u0065r":{"amount":0.1000000000000000055511151231257827,"n":12345678901234567890123},"none":null`

// goldenAnswers are good responses, by record name in testdata/routes.tsv, and the values of their
// published fields: the method's result without any Record.
var goldenAnswers = map[string]struct {
	body string
	want any
}{
	"boolean":      {`true`, true},
	"string":       {`"Under Review: 50% <done>"`, nil}, // see the methods below
	"string(uuid)": {`"3FA85F64-5717-4562-B3FC-2C963F66AFA6"`, uuid.MustParse("3fa85f64-5717-4562-b3fc-2c963f66afa6")},
	"undeclared":   {`{"id":"x",` + extra + `}`, &lending.Record{}},
	"UserResponse": {
		`{"id":"c0000000-0000-4000-8000-000000000001",` + extra + `}`,
		&lending.UserResponse{ID: catalog.Customer},
	},
	"LoanResponse": {
		`{"id":"10000000-0000-4000-8000-000000000003",` + extra +
			`,"applicationId":"a0000000-0000-4000-8000-000000000002"}`,
		&lending.LoanResponse{ID: catalog.Loan, ApplicationID: catalog.Application},
	},
	"FullApplicationUser": {
		`{"requiresTwoFactor":true,"token":"eyJ","expiresUTC":"2026-03-04T05:06:07.1234567",` + extra + `}`,
		&lending.FullApplicationUser{
			RequiresTwoFactor: true, Token: lending.NewSecret("eyJ"), ExpiresUTC: time.Date(2026, 3, 4, 5, 6, 7,
				123456700, time.UTC),
		},
	},
	"WebhookSubscription": {
		`{"id":"5b000000-0000-4000-8000-000000000008","webhookUri":"https://hooks.example.com","isActive":true,` +
			`"webhooks":["WB_Loan_Created","WB_Of_Tomorrow"],"secret":"whs_1",` + extra + `}`,
		&lending.WebhookSubscription{
			ID:         uuid.MustParse("5b000000-0000-4000-8000-000000000008"),
			WebhookURI: "https://hooks.example.com", IsActive: true,
			Webhooks: []lending.EventName{"WB_Loan_Created", "WB_Of_Tomorrow"}, Secret: lending.NewSecret("whs_1"),
		},
	},
	"PagedListTransactionResponse": {
		`{"data":[{"n":1.50,` + extra + `},{"n":2}],"totalCount":7,` + extra + `}`,
		&lending.Page[lending.Transaction]{Data: make([]lending.Transaction, 2), TotalCount: 7},
	},
	"PagedListAdvanceProjectionResponse": {
		`{"data":[{"n":1.50,` + extra + `},{"n":2}],"totalCount":7,` + extra + `}`,
		&lending.Page[lending.AdvanceProjection]{Data: make([]lending.AdvanceProjection, 2), TotalCount: 7},
	},
	"GuidApiResponse": {`{"data":"3FA85F64-5717-4562-B3FC-2C963F66AFA6",` + extra + `}`, &lending.GuidApiResponse{}},
	"InvoiceWithdrawalResponse": {
		`{"advanceRate":0.80000000000000000001,` + extra + `}`,
		&lending.InvoiceWithdrawal{LoanID: catalog.Loan, Amount: "2500.10", AdvanceRate: "0.80000000000000000001"},
	},
}

// goldenAnswer returns a good response of a route and the values of its published fields, or nil if
// none is published.
func goldenAnswer(r catalog.Route) (body string, want any) {
	record, list := strings.CutPrefix(r.Answer, "[]")
	g, published := goldenAnswers[record]
	switch {
	case r.Answer == "-":
		return "", nil
	case !published:
		g.body = `{"state":"x",` + extra + `}`
	case record == "string(uuid)":
		g.want = map[string]any{
			"Applications.Process": lending.OfferID(g.want.(uuid.UUID)), "Loans.ResendWithdrawalOTP": g.want,
		}[r.Name]
		if g.want == nil {
			g.want = lending.ApplicationID(goldenAnswers[record].want.(uuid.UUID))
		}
	case r.Name == "Auth.RefreshToken":
		g.want = lending.NewSecret("Under Review: 50% <done>")
	case r.Name == "Applications.Status":
		g.want = "Under Review: 50% <done>"
	case catalog.IsUpload(r):
		g.want = nil // only an error
	}
	if !list {
		return g.body, g.want
	}
	if g.want != nil {
		elem := reflect.ValueOf(g.want).Elem()
		two := reflect.Append(reflect.MakeSlice(reflect.SliceOf(elem.Type()), 0, 2), elem, elem)
		g.want = two.Interface()
	}
	return "[" + g.body + "," + g.body + "]", g.want
}

// strip returns a copy of a result without any Record.
func strip(v reflect.Value) reflect.Value {
	fresh := reflect.New(v.Type()).Elem()
	switch {
	case v.Type() == reflect.TypeFor[lending.Record]():
	case v.Kind() == reflect.Pointer && !v.IsNil():
		fresh.Set(reflect.New(v.Type().Elem()))
		fresh.Elem().Set(strip(v.Elem()))
	case v.Kind() == reflect.Slice && !v.IsNil():
		fresh.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		for i := range v.Len() {
			fresh.Index(i).Set(strip(v.Index(i)))
		}
	case v.Kind() == reflect.Struct && v.NumField() > 0 && v.Type().Field(0).IsExported():
		for i := range v.NumField() {
			fresh.Field(i).Set(strip(v.Field(i)))
		}
	default:
		fresh.Set(v)
	}
	return fresh
}

func published(result any) any {
	if result == nil {
		return nil
	}
	return strip(reflect.ValueOf(result)).Interface()
}

// pascal writes the names of published fields in PascalCase, as the ABP framework does.
func pascal(body string) string {
	for _, name := range []string{
		"id", "applicationId", "requiresTwoFactor", "token", "expiresUTC", "webhookUri",
		"isActive", "webhooks", "secret", "data", "totalCount", "advanceRate",
	} {
		body = strings.ReplaceAll(body, `"`+name+`":`, `"`+strings.ToUpper(name[:1])+name[1:]+`":`)
	}
	return body
}

// Every method decodes a response in each form in which the service may send it.
func TestEveryFormOfAResponseIsDecoded(t *testing.T) {
	var answer wire.RoundTripper
	client := afterRequest(t, func(r *http.Request) (*http.Response, error) { return answer(r) })
	for name, r := range catalog.Routes(t) {
		t.Run(name, func(t *testing.T) {
			body, want := goldenAnswer(r)
			for _, test := range []struct {
				form   string
				answer wire.RoundTripper
			}{
				{"plain", wire.Reply(http.StatusOK, body)},
				{"byte order", wire.Reply(http.StatusOK, "\xEF\xBB\xBF"+body)},
				{"white space", wire.Reply(http.StatusOK, " \r\n\t"+body+"\n")},
				{"PascalCase", wire.Reply(http.StatusOK, pascal(body))},
				{"created", wire.Reply(http.StatusCreated, body)},
				{"text/json", wire.Reply(http.StatusOK, body, "Content-Type", "text/json")},
				{"text/plain", wire.Reply(http.StatusOK, body, "Content-Type", "text/plain; charset=utf-8")},
				{"no type", wire.Reply(http.StatusOK, body, "Content-Type", "")},
			} {
				answer = test.answer
				result, err := catalog.Calls[name](t.Context(), client)
				require.NoError(t, err, test.form)
				if want != nil {
					assert.Equal(t, want, published(result), test.form)
				}
				if test.form == "plain" && body != "" && !catalog.IsUpload(r) {
					losesNothing(t, body, result)
				}
			}
		})
	}
}

// losesNothing checks that every Record in a result is the response, byte for byte, and that a
// result survives marshalling.
func losesNothing(t *testing.T, body string, result any) {
	t.Helper()
	switch result := result.(type) {
	case interface{ Raw() json.RawMessage }:
		assert.Equal(t, body, string(result.Raw()))
	case *lending.InvoiceWithdrawal:
		assert.Equal(t, body, string(result.Response.Raw()))
	case lending.Secret:
		return
	default:
		if v := reflect.ValueOf(result); v.Kind() == reflect.Slice {
			var parts []string
			for i := range v.Len() {
				parts = append(parts, string(v.Index(i).Interface().(interface{ Raw() json.RawMessage }).Raw()))
			}
			assert.Equal(t, body, "["+strings.Join(parts, ",")+"]")
		}
	}
	once, err := json.Marshal(result)
	require.NoError(t, err)
	switch result.(type) {
	case *lending.FullApplicationUser, *lending.WebhookSubscription: // which redact
		assert.Contains(t, string(once), `"[redacted]"`)
		assert.NotContains(t, string(once), "eyJ")
		assert.NotContains(t, string(once), "whs_1")
		return
	case *lending.InvoiceWithdrawal, string, uuid.UUID, lending.ApplicationID, lending.OfferID:
	default:
		assert.Equal(t, body, string(once))
	}
	again := reflect.New(reflect.TypeOf(result))
	require.NoError(t, json.Unmarshal(once, again.Interface()))
	assert.Equal(t, published(result), published(again.Elem().Interface()))
	twice, err := json.Marshal(again.Elem().Interface())
	require.NoError(t, err)
	assert.Equal(t, string(once), string(twice))
}

// publishedParts are the members that a record must have.
var publishedParts = map[string]string{
	"UserResponse": "id", "LoanResponse": "id", "WebhookSubscription": "id",
	"PagedListTransactionResponse": "data", "PagedListAdvanceProjectionResponse": "data",
}

// TestEveryErrorNamesRouteAndChecks reads the error of each method after a 500 and after a 400. The
// error of each mutation names the reads that tell whether the mutation happened, or the comment of
// its method says that no read does.
func TestEveryErrorNamesRouteAndChecks(t *testing.T) {
	status := http.StatusBadRequest
	client := wire.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		wire.Answer(status, `{"errorCode":"E1","detail":"hush","errors":[{"field":"f","message":"hush",`+
			`"code":"C1"}]}`)(w, r)
	})
	docs := methodDocs(t)
	known := methods()
	for name, r := range catalog.Routes(t) {
		t.Run(name, func(t *testing.T) {
			status = http.StatusBadRequest
			_, err := catalog.Calls[name](t.Context(), client)
			want := "lending: " + r.Method + " " + r.Path + ": 400 Bad Request: errorCode E1: field f C1"
			if r.Reads {
				require.EqualError(t, err, want)
				return
			}
			require.EqualError(t, err, want+": rejected")
			status = http.StatusInternalServerError
			_, err = catalog.Calls[name](t.Context(), client)
			require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
			var failed *lending.Error
			require.ErrorAs(t, err, &failed)
			comment := strings.Join(strings.Fields(docs[name]), " ")
			if failed.CheckWith == "" {
				assert.NotContains(t, comment, "read [", "the comment names a read, the error none")
				assert.Regexp(t, "othing shows|o read shows|ign in again|only the receiver shows", comment)
				return
			}
			for read := range strings.SplitSeq(failed.CheckWith, ", ") {
				assert.Contains(t, known, read)
				assert.True(t, catalog.Routes(t)[read].Reads, "%s reads", read)
				service, method, _ := strings.Cut(read, ".")
				assert.Contains(t, comment, "["+service+"Service."+method+"]",
					"the comment of %s names the read that tells")
			}
		})
	}
}
