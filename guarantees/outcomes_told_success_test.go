package guarantees_test

import (
	"context"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/race"
	"github.com/lendingapi/lending-go/internal/test/wire"
)

const (
	someID = `"11111111-2222-4333-8444-555555555555"`
	// whole has every published member of every record.
	whole = `"id":` + someID + `,"applicationId":` + someID + `,"token":"t","data":[],"totalCount":0`
)

// kindOf names the kind of the route's success.
func kindOf(r catalog.Route) string {
	switch {
	case catalog.IsUpload(r):
		return "upload"
	case catalog.IsBatch(r):
		return "batch"
	case r.Answer == "GuidApiResponse", r.Answer == "FullApplicationUser":
		return r.Answer
	case r.Name == "Auth.RefreshToken":
		return "token"
	case publishedParts[r.Answer] == "data":
		return "page"
	case publishedParts[strings.TrimPrefix(r.Answer, "[]")] == "id":
		return strings.TrimSuffix(r.Answer, strings.TrimPrefix(r.Answer, "[]")) + "id"
	case strings.HasPrefix(r.Answer, "[]"):
		return "list"
	case r.Answer == "-", r.Answer == "undeclared", r.Answer == "boolean", strings.HasPrefix(r.Answer, "string"):
		return r.Answer
	}
	return "record"
}

// verdicts is the meaning of a 200 for each kind of route: a success (""), a success with a lost
// result ("done"), or neither for certain ("unknown").
type verdicts map[string]string

func except(otherwise string, exceptions verdicts) verdicts {
	all := verdicts{}
	for _, kind := range []string{
		"-", "undeclared", "record", "id", "GuidApiResponse", "FullApplicationUser", "page", "string(uuid)", "token",
		"string", "boolean",
		"list", "[]id", "batch", "upload",
	} {
		all[kind] = otherwise
	}
	maps.Copy(all, exceptions)
	return all
}

// successes are bodies of a 200 and their meaning.
func successes() map[string]verdicts {
	failure := except("unknown", verdicts{"FullApplicationUser": ""}) // which fails by having no token
	object := except("done", verdicts{
		"-": "", "undeclared": "", "record": "", "id": "", "GuidApiResponse": "", "FullApplicationUser": "", "page": "",
		"upload": "unknown",
	})
	refusal := with(object, verdicts{"GuidApiResponse": "unknown"}) // where money moves
	without := maps.Clone(object)
	maps.Copy(without, verdicts{"id": "done", "page": "done", "GuidApiResponse": "unknown"})
	zero := strings.ReplaceAll(`{`+whole+`}`, someID, `"00000000-0000-0000-0000-000000000000"`)
	id := except("done", verdicts{
		"-": "", "undeclared": "", "GuidApiResponse": "", "string(uuid)": "", "token": "", "string": "",
		"upload": "unknown",
	})
	text := maps.Clone(id)
	maps.Copy(text, verdicts{"GuidApiResponse": "unknown", "string(uuid)": "done"})
	other := except("done", verdicts{"-": "", "undeclared": "", "GuidApiResponse": "unknown", "upload": "unknown"})
	list := func(fits verdicts) verdicts {
		all := maps.Clone(other)
		maps.Copy(all, verdicts{"list": "", "[]id": "done", "batch": "unknown"})
		maps.Copy(all, fits)
		return all
	}
	nothing := except("done", verdicts{
		"-": "", "list": "", "[]id": "", "GuidApiResponse": "unknown",
		"upload": "unknown",
	})
	return map[string]verdicts{
		`false`:             except("unknown", verdicts{"boolean": ""}),
		"\xEF\xBB\xBFfalse": except("unknown", verdicts{"boolean": ""}),
		" false\r\n":        except("unknown", verdicts{"boolean": ""}),

		`{"success":false}`:                                 failure,
		`{"Success": false, ` + whole + `}`:                 failure,
		"\xEF\xBB\xBF" + ` {` + whole + `,"success":false}`: failure,
		`{"\u0073uccess":false}`:                            failure,
		`{"success":true,"isSuccess":false}`:                failure,
		`{"success":"False",` + whole + `}`:                 failure,
		`{"isSuccess":0,` + whole + `}`:                     failure,
		`{"SUCCEEDED":false}`:                               failure,
		`{"error":"no such application"}`:                   failure,
		`{"error":{"code":7},` + whole + `}`:                failure,
		`{"error":true}`:                                    failure,
		`{"errors":["no"],"error":null}`:                    failure,
		`{"Errors":{"Email":["no"]}}`:                       failure,
		`{"status":404,"title":"Not Found"}`:                failure,
		`{"errorCode":"E1","status":500}`:                   failure,
		`{"ErrorCode":"E1",` + whole + `}`:                  failure,
		`{"Status":400,"TraceId":"00-1",` + whole + `}`:     failure,

		`{` + whole + `}`: object,
		`{"success":true,"isSuccess":null,` + whole + `}`:          object,
		`{"error":null,"errors":[ ],` + whole + `}`:                object,
		`{"error":"","errors":{ },"succeeded":1,` + whole + `}`:    object,
		`{"error":false,"Errors":0,` + whole + `}`:                 object,
		`{"status":400,` + whole + `}`:                             refusal,
		`{"status":"404","title":"Manager",` + whole + `}`:         refusal,
		`{"status":200,"title":"OK",` + whole + `}`:                object,
		`{"status":404,"title":"","errorCode":null,` + whole + `}`: refusal,
		`{"result":{"success":false,"error":"x"},` + whole + `}`:   refusal,
		`{"successful":false,"errorCount":3,` + whole + `}`:        object,

		`{"status":"ok"}`:               without,
		`{"id":null,"data":null,"x":1}`: without,
		`{}`:                            without,
		`{ "a" : null , "b" : "" }`:     without,
		`{"data":"00000000-0000-0000-0000-000000000000","message":"no"}`: without,
		`{"detail":"no","correlationId":` + someID + `}`:                 without,
		`{"data":{"a":[` + someID + `]}}`:                                without,
		zero: with(object,
			verdicts{"id": "done", "GuidApiResponse": "unknown"}),
		someID:                              id,
		`"true"`:                            text,
		`"false"`:                           text,
		`"` + strings.Repeat("0", 32) + `"`: text,
		`""`:                                with(text, verdicts{"token": "done"}),
		`12`:                                other,
		`true`:                              with(other, verdicts{"boolean": "", "upload": ""}),
		`[]`:                                list(verdicts{"[]id": ""}),
		`[{}]`:                              list(nil),
		`[{` + whole + `}]`:                 list(verdicts{"[]id": ""}),
		`[{` + whole + `},{` + whole + `}]`: list(verdicts{"[]id": "", "batch": ""}),
		`[{` + whole + `},{"id":null},{}]`:  list(verdicts{"batch": ""}), // no success for customers: see below
		`[{` + whole + `},{"error":"no",` + whole + `}]`: list(verdicts{"[]id": ""}),
		``:         with(nothing, verdicts{"string": ""}),
		`null`:     nothing,
		`{} {}`:    except("done", verdicts{"-": "", "GuidApiResponse": "unknown", "upload": "unknown"}),
		`{"half":`: except("done", verdicts{"-": "", "GuidApiResponse": "unknown", "upload": "unknown"}),
		`<html>`:   except("unknown", nil),
	}
}

func with(base verdicts, more verdicts) verdicts {
	all := maps.Clone(base)
	maps.Copy(all, more)
	return all
}

// afterRequest returns a client of a service in memory that reads each request whole before answer. The
// client does not accept an earlier success as the success of an upload.
func afterRequest(t *testing.T, answer wire.RoundTripper, opts ...lending.Option) *lending.Client {
	t.Helper()
	return wire.InMemory(t, func(r *http.Request) (*http.Response, error) {
		if r.Body != nil {
			_, _ = io.Copy(io.Discard, r.Body)
		}
		return answer(r)
	}, opts...)
}

// TestSuccessOfEveryRoute sends each body to each route as a 200, and compares the outcome.
func TestSuccessOfEveryRoute(t *testing.T) {
	t.Parallel()
	var body string
	var attempt lending.Call
	client := afterRequest(t, func(r *http.Request) (*http.Response, error) { return wire.Reply(http.StatusOK, body)(r) },
		wire.Attempts(func(_ context.Context, a lending.Call) { attempt = a }))
	table, routes := successes(), catalog.Routes(t)
	t.Logf("%d answers to each of %d routes", len(table), len(routes))
	for name, r := range routes {
		t.Run(name, func(t *testing.T) {
			for answered, verdict := range table {
				if race.Enabled && len(answered)%4 != 0 { // which finds nothing in the words of an answer
					continue
				}
				body = answered
				want, ok := verdict[kindOf(r)]
				require.True(t, ok, kindOf(r))
				if name == "Bulk.CreateCustomers" && strings.Contains(body, `{"id":null},{}`) {
					want = "done"
				}
				call := catalog.Calls[name]
				if name == "Loans.Get" {
					call = func(ctx context.Context, c *lending.Client) (any, error) {
						return c.Loans.Get(ctx, lending.LoanID(uuid.MustParse(strings.Trim(someID, `"`))))
					}
				}
				result, err := call(t.Context(), client)
				if want == "" {
					assert.NoError(t, err, body)
					continue
				}
				if !assert.Error(t, err, "%s is a success with %#v", body, result) {
					continue
				}
				assert.NotContains(t, err.Error(), "no such", body)
				var failed *lending.Error
				require.ErrorAs(t, err, &failed)
				if r.Reads {
					assert.NotErrorIs(t, err, lending.ErrMayHaveHappened, body)
					assert.NotEqual(t, lending.OutcomeDone, failed.Outcome, body)
					continue
				}
				assert.Equal(t, want, lending.OutcomeOf(err).String(), "%s: %v", body, err)
				assert.ErrorIs(t, err, lending.ErrMayHaveHappened, body)
				assert.Equal(t, want == "unknown", attempt.Outcome == lending.OutcomeUnknown, body)
				assert.Equal(t, catalog.CheckWith(t, name), failed.CheckWith)
				require.NotNil(t, failed.Response(), "%s: %v", body, err)
				assert.Equal(t, body, string(failed.Response().Body))
			}
		})
	}
}

func TestFailureInA200IsReported(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		body string
		want string
	}{
		{
			`{"success":false,"message":"hush"}`,
			"200 OK: the answer reports a failure: success: outcome unknown, check with Applications.Status",
		},
		{`{"Error":"hush"}`, "200 OK: the answer reports a failure: Error: outcome unknown, check with " +
			"Applications.Status"},
		{`{"errorCode":"E2"}`, "200 OK: the answer reports a failure: errorCode: outcome unknown, check with " +
			"Applications.Status"},
		{`false`, "200 OK: the answer is false: outcome unknown, check with Applications.Status"},
		{
			`{"status":409,"errorCode":"E1","detail":"hush"}`,
			"200 OK: the answer reports a failure: status: errorCode E1: " +
				"outcome unknown, check with Applications.Status",
		},
	} {
		t.Run(test.body, func(t *testing.T) {
			err := wire.Serve(t, wire.Answer(http.StatusOK, test.body)).Applications.Cancel(t.Context(),
				catalog.OtherApplication)
			require.EqualError(t, err, "lending: POST /api/Application/cancel-application/{applicationId}: "+test.want)
			var failed *lending.Error
			require.ErrorAs(t, err, &failed)
			assert.Equal(t, strings.Contains(test.body, "E1"), failed.Problem != nil)
		})
	}
	for _, test := range []struct {
		body string
		want string
	}{
		{`[{"id":` + someID + `},{"name":"Ada"}]`, "[1].id: want a UUID, got nothing"},
		{`[{"id":12345},{}]`, "[0].id: want a UUID, got a number"},
		{`[{"id":"hush"},{}]`, "[0].id: want a UUID, got a string"},
		{`[{"id":` + someID + `},{"ID":null}]`, "[1].id: want a UUID, got null"},
		{
			`[{"id":` + someID + `},{"id":"00000000-0000-0000-0000-000000000000"}]`,
			"[1].id: want a UUID, got the zero UUID",
		},
		{`[null,null]`, "[0].id: want a UUID, got nothing"},
	} {
		t.Run(test.body, func(t *testing.T) {
			_, err := catalog.Calls["Bulk.CreateCustomers"](t.Context(),
				wire.Serve(t, wire.Answer(http.StatusOK, test.body)))
			assert.ErrorContains(t, err, test.want+": it happened, the answer is lost, read Customers.GetByEmail")
		})
	}
	_, err := catalog.Calls["Loans.Get"](t.Context(), wire.Serve(t, wire.Answer(http.StatusOK, `{"id":`+someID+`}`)))
	assert.ErrorContains(t, err, "applicationId: want a UUID, got nothing")
}

// planID is in the request of confirm.
const planID = `"66666666-7777-4888-8999-aaaaaaaaaaaa"`

// confirm confirms a withdrawal at a service that answers with body. NEW in body is a new UUID, and HELD
// a UUID of the request.
func confirm(t *testing.T, body string) error {
	t.Helper()
	body = strings.NewReplacer("NEW", someID, "HELD", `"`+catalog.Loan.String()+`"`).Replace(body)
	client := wire.Serve(t, wire.Answer(http.StatusOK, body))
	confirmed, err := client.Loans.ConfirmInvoiceWithdrawal(t.Context(), catalog.Withdrawal(),
		lending.WithdrawInvoiceRequestData{
			DateUTC: catalog.Date, OTP: lending.NewSecret("012345"),
			Extra: map[string]any{"plan": strings.Trim(planID, `"`)},
		})
	if err == nil {
		assert.Equal(t, body, string(confirmed.Raw()))
	}
	return err
}

// A bare UUID confirms a withdrawal, and no word of the withdrawal's record contradicts it.
func TestConfirmationNeedsAUUIDAndNoWords(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`NEW`, `{"id":NEW}`, `{"Id":NEW}`, `{"guid":NEW}`, `{"data":NEW}`, `{"result":NEW,"statusCode":200}`,
		`{"result":NEW,"targetUrl":null,"success":true,"error":null,"unAuthorizedRequest":false,"__abp":true}`,
		`{"data":NEW,"message":"The withdrawal is on its way","succeeded":true,"errors":[]}`,
		`{"data":NEW,"message":null,"errors":{ },"isSuccess":"True"}`, `{"id":NEW,"message":"OK","code":0}`,
		`{"id":NEW,"loanId":HELD,"status":"Completed","fee":0,"dateUTC":"2024-01-02T03:04:05Z","currency":"USD"}`,
		`{"id":NEW,"success":1,"hasErrors":false,"failed":false,"requiresOtp":false,"errorCode":""}`,
		`{"id":NEW,"correlationId":NEW,"data":{"amount":1,"parts":[{"amount":1}]}}`,

		// Words of the withdrawal's record that say nothing about the call.
		`{"id":NEW,"businessName":"Failsafe Ltd","status":"Active","isRevolving":false}`,
		`{"id":NEW,"message":"The previous code has expired; this one was accepted"}`,
		`{"id":NEW,"accepted":false,"failed":true,"errorMessage":"none of the fees was refused"}`,
		`{"id":NEW,"status":null,"state":"","code":0,"success":null,"previous":{"status":"Rejected"}}`,
	} {
		t.Run(body, func(t *testing.T) {
			assert.NoError(t, confirm(t, body))
		})
	}
}

// A UUID anywhere else in a response proves no withdrawal, and the named member contradicts the UUID.
func TestRefusedWithdrawalIsInDoubt(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ body, contradiction string }{
		{`{"message":"OTP invalid","requestId":NEW}`, ""},
		{`{"detail":"no","correlationId":NEW}`, ""},
		{`{"accepted":false,"loanId":HELD}`, ""},
		{`{"traceId":NEW}`, ""},
		{`{"data":{"id":NEW}}`, ""},
		{`{"data":[NEW]}`, ""},
		{`{"id":HELD}`, ""},
		{`HELD`, ""},
		{`"00000000-0000-0000-0000-000000000000"`, ""},
		{`"confirmed"`, ""},
		{`{"id":12}`, ""},
		{`[NEW]`, ""},
		{`12`, ""},
		{`true`, ""},
		{`{}`, ""},
		{`{"value":NEW}`, ""},
		{`{"success":"false","id":NEW}`, "success"},
		{`{"Success":0,"id":NEW}`, "Success"},
		{`{"success":"no","id":NEW}`, "success"},
		{`{"id":NEW,"response":{"success":false}}`, "success"},
		{`{"id":NEW,"steps":[{"success":true},{"success":false}]}`, "success"},
		{`{"id":NEW,"result":{"errors":["no"]}}`, "errors"},
		{`{"id":NEW,"succeeded":false}`, "succeeded"},
		{`{"status":"Rejected","id":NEW}`, "status"},
		{`{"status":"Inactive","id":NEW}`, "status"},
		{`{"status":"404","id":NEW}`, "status"},
		{`{"status":{"name":"Rejected"},"id":NEW}`, "status"},
		{`{"status":false,"id":NEW}`, "status"},
		{`{"statusCode":400,"id":NEW}`, "statusCode"},
		{`{"code":"OTP_INVALID","id":NEW}`, "code"},
		{`{"code":-1,"id":NEW}`, "code"},
		{`{"state":"waiting","data":NEW}`, "state"},
		{`{"error":{"code":7},"id":NEW}`, "error"},
		{`{"error":"no","id":NEW}`, "error"},
		{`{"errors":["no"],"id":NEW}`, "errors"},
		{`{"errors":[{}],"success":true,"id":NEW}`, "errors"},
		{`{"id":"` + strings.ToUpper(catalog.Loan.String()) + `"}`, ""},
		{planID, ""},
		{`{"data":` + planID + `}`, ""},
		{`{"status":"Ask for another code","data":NEW}`, "status"},
		{`{"errors":["Ask for another code"],"id":NEW}`, "errors"},
		{`{"correlationId":NEW}`, ""},
	} {
		t.Run(test.body, func(t *testing.T) {
			err := confirm(t, test.body)
			require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
			assert.NotContains(t, err.Error(), "another code")
			if test.contradiction != "" {
				assert.ErrorContains(t, err, ": "+test.contradiction+": ")
			}
		})
	}
}

// The client does not know the responses of the route.
func TestDoAcceptsEveryBodyExceptHTML(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		body string
		ok   bool
	}{
		{`false`, true},
		{`{"success":false}`, true},
		{`{"status":404,"title":"x"}`, true},
		{``, true},
		{`null`, true},
		{`<html>`, false},
	} {
		t.Run(test.body, func(t *testing.T) {
			record, err := wire.Serve(t, wire.Answer(http.StatusOK, test.body)).Do(t.Context(),
				lending.RawRequest{Method: http.MethodPost, Path: "/api/Group/do"})
			assert.Equal(t, test.ok, err == nil)
			if test.ok {
				assert.Equal(t, strings.TrimPrefix(test.body, "null"), string(record.Raw()), "null is no content")
			}
		})
	}
}

// A read refuses the record of another loan: its connection may hold a late response to another
// call.
func TestReadOfAnotherRecordFails(t *testing.T) {
	t.Parallel()
	client := wire.Serve(t, wire.Answer(http.StatusOK, `{`+whole+`}`))
	loan, err := client.Loans.Get(t.Context(), catalog.Loan)
	require.ErrorContains(t, err, "200 OK: id: want the id that was asked for, got another")
	assert.Nil(t, loan)
	assert.False(t, lending.IsNotFound(err))
	assert.Equal(t, lending.OutcomeUnknown, lending.OutcomeOf(err))
	loan, err = client.Loans.Get(t.Context(), lending.LoanID(uuid.MustParse(strings.Trim(someID, `"`))))
	require.NoError(t, err)
	assert.Equal(t, someID, `"`+loan.ID.String()+`"`)
}
