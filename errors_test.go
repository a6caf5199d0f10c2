package lending_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
)

func TestProblemDetails(t *testing.T) {
	full := &lending.ProblemDetails{
		Status: 400, Title: "Bad", Detail: "d", Instance: "/api", TraceID: "t-1", CorrelationID: "c-1", ErrorCode: "E1",
		Errors: []lending.FieldError{{Field: "email", Message: "m", Code: "invalid"}},
	}
	for _, test := range []struct {
		name, contentType, body string
		want                    *lending.ProblemDetails
	}{
		{"array", "application/json", `{"status":400,"title":"Bad","detail":"d","instance":"/api","traceId":"t-1","correlationId":"c-1","errorCode":"E1","errors":[{"field":"email","message":"m","code":"invalid"}]}`, full},
		{"problem+json in PascalCase, with a BOM", "application/problem+json; charset=utf-8", "\uFEFF" + `{"Status":400,"Title":"Bad","Detail":"d","Instance":"/api","TraceId":"t-1","CorrelationId":"c-1","ErrorCode":"E1","Errors":[{"Field":"email","Message":"m","Code":"invalid"}]}`, full},
		{"dictionary", "application/problem+json", `{"status":400,"errors":{"Email":["m1","m2"],"$.customerId":["m3"],"":"m4"}}`, &lending.ProblemDetails{Status: 400, Errors: []lending.FieldError{
			{Field: "", Message: "m4"}, {Field: "$.customerId", Message: "m3"}, {Field: "Email", Message: "m1"}, {Field: "Email", Message: "m2"},
		}}},
		{"members of other types", "application/json", `{"status":"400","title":7,"errorCode":"E1","errors":[{"field":1,"code":"c"},"text",null]}`, &lending.ProblemDetails{ErrorCode: "E1", Errors: []lending.FieldError{{Code: "c"}, {}, {}}}},
		{"labelled as text", "text/plain", `{"errorCode":"E1"}`, &lending.ProblemDetails{ErrorCode: "E1"}},
		{"html", "text/html", "<html>secret</html>", nil},
		{"empty", "", "", nil},
		{"broken", "application/json", `{"errorCode":"E1"`, nil},
		{"a string", "application/json", `"secret"`, nil},
		{"null", "application/json", `null`, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			client := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", test.contentType)
				w.WriteHeader(http.StatusBadRequest)
				_, _ = w.Write([]byte(test.body))
			})
			err := client.Applications.Cancel(t.Context(), someApplication)
			var failed *lending.Error
			require.ErrorAs(t, err, &failed)
			assert.Equal(t, 400, failed.StatusCode)
			assert.Equal(t, lending.OutcomeRejected, failed.Outcome)
			assert.Equal(t, "POST", failed.Method)
			assert.Equal(t, "/api/Application/cancel-application/{applicationId}", failed.Route)
			assert.Equal(t, test.body, string(failed.Response().Body))
			assert.NotContains(t, err.Error(), "secret")
			if failed.Problem != nil {
				failed.Problem.Raw = nil
			}
			assert.Equal(t, test.want, failed.Problem)
		})
	}
}

func TestErrorText(t *testing.T) {
	client := serve(t, answer(400, `{"title":"hush","detail":"hush","instance":"/hush","traceId":"00-ab-01","correlationId":"c-1","errorCode":"E1",
		"errors":[{"field":"email","message":"The value 'hush' is wrong","code":"invalid"},{"field":"the value hush","message":"","code":""}]}`))
	err := client.Applications.Cancel(t.Context(), someApplication)
	const want = "lending: POST /api/Application/cancel-application/{applicationId}: 400 Bad Request" +
		": errorCode E1: trace 00-ab-01: correlation c-1: field email invalid: field [redacted]: rejected"
	var failed *lending.Error
	require.ErrorAs(t, err, &failed)
	assert.Equal(t, want, err.Error())

	var text, structured bytes.Buffer
	slog.New(slog.NewTextHandler(&text, nil)).Info("x", "err", err, "problem", failed.Problem)
	slog.New(slog.NewJSONHandler(&structured, nil)).Info("x", "err", err, "problem", failed.Problem)
	asJSON, marshalErr := json.Marshal(err)
	require.NoError(t, marshalErr)
	all := text.String() + structured.String() + string(asJSON)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
		all += fmt.Sprintf(verb, err) + fmt.Sprintf(verb, failed.Problem) + fmt.Sprintf(verb, []error{err})
	}
	assert.NotContains(t, all, "hush")
	assert.Contains(t, structured.String(), `"outcome":"rejected"`)
	assert.Equal(t, "hush", failed.Problem.Detail)
}

// TestWhatLiesBehindAnError holds that a caller can still ask what failed: by value, by
// net.Error, by the errors of certificates, by his own types, and where no connection
// could be made.
func TestWhatLiesBehindAnError(t *testing.T) {
	mine := &myError{"mine"}
	host := x509.HostnameError{Certificate: &x509.Certificate{}, Host: "lending.example"}
	dialed := &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	_, err := benchmarkClient(t, "https://lending.example", &http.Client{Transport: roundTripper(func(*http.Request) (*http.Response, error) {
		return nil, errors.Join(mine, os.ErrDeadlineExceeded, net.ErrClosed, &tls.CertificateVerificationError{Err: host}, &net.OpError{Op: "proxyconnect", Err: dialed},
			&net.DNSError{Err: "c4n4ry", Name: "lending.example", Server: "c4n4ry", IsNotFound: true})
	})}).Applications.Status(t.Context(), theApplication)
	for _, target := range []error{mine, net.ErrClosed, syscall.ECONNREFUSED, os.ErrDeadlineExceeded} {
		require.ErrorIs(t, err, target)
	}
	var network net.Error
	require.ErrorAs(t, errors.Unwrap(err), &network)
	assert.Equal(t, errors.Unwrap(err), network)
	var certificate *tls.CertificateVerificationError
	require.ErrorAs(t, err, &certificate)
	var hostname x509.HostnameError
	require.ErrorAs(t, err, &hostname)
	var own *myError
	require.ErrorAs(t, err, &own)
	var operation *net.OpError
	require.ErrorAs(t, err, &operation)
	assert.EqualError(t, operation, "dial tcp 127.0.0.1:1: connection refused")
	var dns *net.DNSError
	require.ErrorAs(t, err, &dns)
	assert.EqualError(t, dns, "lookup lending.example: not found")
	assert.True(t, dns.IsNotFound)
}

type myError struct{ text string }

func (e *myError) Error() string { return e.text }

func TestStatusSentinels(t *testing.T) {
	for status, sentinel := range map[int]error{
		401: lending.ErrUnauthorized,
		403: lending.ErrForbidden,
		404: lending.ErrNotFound,
		413: lending.ErrTooLarge,
		429: lending.ErrRateLimited,
		502: lending.ErrOutcomeUnknown,
	} {
		client := serve(t, answer(status, ``))
		err := client.Applications.Cancel(t.Context(), someApplication)
		for _, other := range []error{
			lending.ErrUnauthorized, lending.ErrForbidden, lending.ErrNotFound, lending.ErrTooLarge,
			lending.ErrRateLimited, lending.ErrOutcomeUnknown, lending.ErrSignInRequired, lending.ErrNoContent,
		} {
			assert.Equal(t, other == sentinel, errors.Is(err, other), "%d is %v", status, other) //nolint:errorlint // the very value
		}
	}
}

// A success that says nothing, or something else than was asked for.
func TestAnswersThatDoNotFit(t *testing.T) {
	const html = "text/html; charset=utf-8"
	for _, test := range []struct {
		name        string
		status      int
		contentType string
		body        string
		outcome     lending.Outcome
		text        string
	}{
		{"no content", 204, "", "", lending.OutcomeDone, "no content"},
		{"null", 200, "application/json", "null", lending.OutcomeDone, "no content"},
		{"empty", 200, "application/json", "", lending.OutcomeDone, "no content"},
		{"array", 200, "application/json", `[1]`, lending.OutcomeDone, "want an object, got an array"},
		{"id is a number", 200, "application/json", `{"id":12345}`, lending.OutcomeDone, "id: want a UUID, got a number"},
		{"id is no UUID", 200, "application/json", `{"id":"hush"}`, lending.OutcomeDone, "id: want a UUID, got a string"},
		{"trailing data", 200, "application/json", `{} {}`, lending.OutcomeDone, "not JSON"},
		{"broken", 200, "application/json", `{"id":`, lending.OutcomeDone, "not JSON"},
		{"a page", 200, html, `<html>hush</html>`, lending.OutcomeUnknown, "HTML"},
		{"a page that is labelled JSON", 200, "application/json", ` <html>hush</html>`, lending.OutcomeUnknown, "HTML"},
		{"a redirect", 302, html, `hush`, lending.OutcomeUnknown, "302 Found"},
	} {
		t.Run(test.name, func(t *testing.T) {
			client := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", test.contentType)
				w.Header().Set("Location", "https://hush.example/%zz")
				w.WriteHeader(test.status)
				_, _ = w.Write([]byte(test.body))
			})
			customer, err := client.Applications.CreateCustomer(t.Context(), goodCustomer())
			require.Error(t, err)
			assert.Nil(t, customer)
			assert.ErrorContains(t, err, "POST /api/Application/create-customer")
			assert.ErrorContains(t, err, test.text)
			assert.ErrorContains(t, err, "Customers.GetByEmail")
			assert.NotContains(t, err.Error(), "hush")
			assert.Equal(t, test.outcome, lending.OutcomeOf(err))
		})
	}
}

// TestOnlyNamesAreQuoted holds which values of a problem record stand in the text of an
// error: what looks like a code or a name, and is not too long to be one.
func TestOnlyNamesAreQuoted(t *testing.T) {
	long := strings.Repeat("x", 128)
	for code, shown := range map[string]string{
		"E-1.a:b_[0]|$": "E-1.a:b_[0]|$", long: long, long + "x": "[redacted]",
		"two words": "[redacted]", "ümlaut": "[redacted]", "a@b.example": "[redacted]", "a/b": "[redacted]",
	} {
		client := serve(t, answer(http.StatusBadRequest, `{"errorCode":"`+code+`","errors":[{"field":"`+code+`","code":"`+code+`"}]}`))
		_, err := client.Applications.Status(t.Context(), someApplication)
		assert.EqualError(t, err, "lending: GET /api/Application/application-status/{applicationId}: 400 Bad Request: errorCode "+
			shown+": field "+shown+" "+shown)
	}
}

func TestOutcomeOf(t *testing.T) {
	assert.Equal(t, lending.OutcomeDone, lending.OutcomeOf(nil))
	assert.Equal(t, lending.OutcomeUnknown, lending.OutcomeOf(errors.New("other")))
	assert.Equal(t, lending.OutcomeUnknown, lending.Outcome(0))
	assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(fmt.Errorf("wrapped: %w", &lending.ArgumentError{})))
	assert.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(&lending.TwoFactorRequiredError{}))
	assert.Equal(t, lending.OutcomeRejected, lending.OutcomeOf(errors.Join(&lending.Error{Outcome: lending.OutcomeRejected})))
	for _, outcome := range []lending.Outcome{lending.OutcomeUnknown, lending.OutcomeNotSent, lending.OutcomeRejected, lending.OutcomeDone} {
		err := &lending.Error{Effect: lending.Mutation, Outcome: outcome}
		lost := fmt.Errorf("wrapped: %v", err) //nolint:errorlint // what it is about
		assert.Equal(t, lending.OutcomeUnknown, lending.OutcomeOf(lost), "an error that lost its %%w may have happened")
		assert.NotErrorIs(t, lost, lending.ErrMayHaveHappened, "which errors.Is cannot know")
		kept := fmt.Errorf("wrapped: %w", err)
		assert.Equal(t, outcome, lending.OutcomeOf(kept))
		assert.Equal(t, outcome == lending.OutcomeUnknown || outcome == lending.OutcomeDone, errors.Is(kept, lending.ErrMayHaveHappened))
	}
	words := fmt.Sprint(lending.OutcomeUnknown, ", ", lending.OutcomeNotSent, ", ", lending.OutcomeRejected, ", ", lending.OutcomeDone)
	assert.Equal(t, "unknown, not sent, rejected, done", words)
}
