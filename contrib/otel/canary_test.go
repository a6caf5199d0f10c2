package lendingotel_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	lendingotel "github.com/lendingapi/lending-go/contrib/otel"
)

// Every call sends one of these markers. The last is the base64 form of the first.
const (
	canary     = "canary"
	canaryUUID = "ca4a12ca-4a12-4ca4-a12c-a4a12ca4a12c"
)

var canaries = []string{canary, canaryUUID, strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(canary)), "=")}

// canaryCalls send marked values in path, query, body, header and file.
var canaryCalls = map[string]func(context.Context, *lending.Client) error{
	"GET " + getLoan: func(ctx context.Context, c *lending.Client) error {
		_, err := c.Loans.Get(ctx, mustID(lending.ParseLoanID))
		return err
	},
	"GET /api/Customer/get-customer-by-email": func(ctx context.Context, c *lending.Client) error {
		_, err := c.Customers.GetByEmail(ctx, "canary@example.com")
		return err
	},
	"GET /api/Application/update-customer-data/{applicationId}": func(ctx context.Context, c *lending.Client) error {
		_, err := c.Applications.UpdateCustomerData(ctx, mustID(lending.ParseApplicationID), lending.CustomerData{
			FirstName: canary, LastName: canary, Address: canary, State: canary, City: canary,
			SSN: lending.NewSecret("canary-ssn"), Mobile: "4155550100", DateOfBirth: time.Unix(0, 0),
		})
		return err
	},
	"POST /api/Application/create-customer": func(ctx context.Context, c *lending.Client) error {
		_, err := c.Applications.CreateCustomer(ctx, lending.UserRequest{
			FirstName: canary, LastName: canary, Email: "canary@example.com", Password: lending.NewSecret(canary),
			MobileNumber: "4155550100", Extra: map[string]string{"more": canary},
		})
		return err
	},
	"POST /api/Authenication/login": func(ctx context.Context, c *lending.Client) error {
		_, err := c.Auth.Login(ctx, lending.LoginRequest{
			Username: canary, Password: lending.NewSecret(canary), TrustedDeviceToken: lending.NewSecret(canary),
			IPAddress: canary,
		})
		return err
	},
	"POST /api/ApplicationApproval/sign-contract/{applicationId}/{applicantId}": func(ctx context.Context,
		c *lending.Client,
	) error {
		return c.Approval.SignContract(ctx, mustID(lending.ParseApplicationID),
			lending.ApplicantID(mustID(lending.ParseApplicationID)),
			&lending.SignaturesRequest{
				Signature: lending.SignatureImage([]byte(canary)), Signature2: lending.SignatureImage([]byte(canary)),
			})
	},
	"POST /api/Application/submit-bankstatement-document/{applicationId}": func(ctx context.Context,
		c *lending.Client,
	) error {
		return c.Applications.SubmitBankStatement(ctx, mustID(lending.ParseApplicationID), lending.Document{
			Name: "canary.pdf", Content: strings.NewReader(canary),
		})
	},
	"POST /api/ApplicationApproval/set-primary-bank-account/{applicationId}/{id}": func(ctx context.Context,
		c *lending.Client,
	) error {
		_, err := c.Do(ctx, lending.RawRequest{
			Method: http.MethodPost, Path: "/api/ApplicationApproval/set-primary-bank-account/{applicationId}/{id}",
			Args: []string{canaryUUID, canary}, Query: url.Values{canary: {canary}},
			Body: map[string]string{canary: canary},
		})
		return err
	},
}

func mustID[T any](parse func(string) (T, error)) T {
	id, err := parse(canaryUUID)
	if err != nil {
		panic(err)
	}
	return id
}

// canaryAnswers quote the whole request, token included, wherever an answer has room.
var canaryAnswers = map[string]func(w http.ResponseWriter, echo string){
	"success": func(w http.ResponseWriter, echo string) { reply(w, http.StatusOK, echo) },
	"problem": func(w http.ResponseWriter, echo string) {
		w.Header().Set("WWW-Authenticate", "Bearer error="+echo)
		reply(w, http.StatusBadRequest, map[string]any{
			"status": 400, "title": echo, "detail": echo, "instance": echo, "traceId": echo, "correlationId": echo,
			"errorCode": echo, "errors": []any{map[string]string{"field": echo, "message": echo, "code": echo}},
		})
	},
	"codes": func(w http.ResponseWriter, _ string) { // that look like names, which an error shows
		reply(w, http.StatusBadRequest, map[string]any{
			"status": 400, "traceId": canary, "correlationId": canary, "errorCode": canary,
			"errors": []any{map[string]string{"field": canary, "message": canary, "code": canary}},
		})
	},
	"unauthorized": func(w http.ResponseWriter, echo string) { reply(w, http.StatusUnauthorized, echo) },
	"redirect": func(w http.ResponseWriter, echo string) {
		w.Header().Set("Location", "/"+url.PathEscape(echo))
		w.WriteHeader(http.StatusTemporaryRedirect)
	},
	"developer page": func(w http.ResponseWriter, echo string) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, "<pre>"+echo)
	},
	"page": func(w http.ResponseWriter, echo string) {
		w.Header().Set("Content-Type", "text/html; title="+canary)
		_, _ = io.WriteString(w, "<pre>"+echo)
	},
	"cut": func(w http.ResponseWriter, echo string) {
		w.Header().Set("Content-Length", "1000000")
		_, _ = io.WriteString(w, echo)
	},
	"malformed status": func(w http.ResponseWriter, echo string) { raw(w, "HTTP/1.1 2x0 "+canary+"\r\n\r\n") },
	"malformed header": func(w http.ResponseWriter, echo string) {
		raw(w, "HTTP/1.1 200 "+canary+"\r\n"+canary+
			"\r\n\r\n")
	},
	"no HTTP": func(w http.ResponseWriter, echo string) { raw(w, echo) },
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		panic(err)
	}
}

func raw(w http.ResponseWriter, answer string) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	_, _ = io.WriteString(conn, answer)
	_ = conn.Close()
}

// TestCanary makes every call with every response, and searches all recorded telemetry for the
// markers.
func TestCanary(t *testing.T) {
	for name, answer := range canaryAnswers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			service, tel := newService(t, lendingtest.WithBasePath("/canary")), newTelemetry()
			client, err := lending.New(service.URL, lending.WithTokenSource(lending.StaticToken("canary-token")),
				tel.observe(lendingotel.WithBaseURL(service.URL)), tel.observeCalls())
			require.NoError(t, err)
			defer client.Close()
			for route := range canaryCalls {
				quoted := false // a read is answered properly when it comes again
				service.Answer(route, func(w http.ResponseWriter, r *http.Request) {
					request, err := httputil.DumpRequest(r, true)
					assert.NoError(t, err)
					assert.True(t, hasCanary(strings.ReplaceAll(string(request), "canary-token", "")),
						"%s sent nothing marked", route)
					if quoted {
						reply(w, http.StatusOK, nil)
						return
					}
					quoted = true
					answer(w, strings.NewReplacer("\r", " ", "\n", " ").Replace(string(request)))
				})
			}
			callAll(t.Context(), t, client)
			tel.assertNoCanary(t)
		})
	}
}

// TestCanaryTransport has a transport whose errors quote the request.
func TestCanaryTransport(t *testing.T) {
	tel := newTelemetry()
	transport := roundTripper(func(r *http.Request) (*http.Response, error) {
		return nil, &url.Error{
			Op: r.Method, URL: r.URL.String(),
			Err: fmt.Errorf("%v: %w", r.Header, errors.New(canary)),
		}
	})
	client, err := lending.New("https://lending.example/canary", lending.WithTokenSource(lending.StaticToken(canary)),
		lending.WithHTTPClient(&http.Client{Transport: transport}),
		tel.observe(lendingotel.WithBaseURL("https://lending.example/canary")), tel.observeCalls())
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 80*time.Millisecond) // no time to repeat a read
	defer cancel()
	callAll(ctx, t, client)
	tel.assertNoCanary(t)
}

// callAll makes all calls concurrently.
func callAll(ctx context.Context, t *testing.T, client *lending.Client) {
	t.Helper()
	member, err := baggage.NewMember(canary, canary)
	require.NoError(t, err)
	bag, err := baggage.New(member)
	require.NoError(t, err)
	ctx = baggage.ContextWithBaggage(ctx, bag)
	var calls sync.WaitGroup
	for _, call := range canaryCalls {
		calls.Go(func() { _ = call(ctx, client) })
	}
	calls.Wait()
}

func (tel *telemetry) assertNoCanary(t *testing.T) {
	t.Helper()
	spans := tel.spans.GetSpans()
	var metrics metricdata.ResourceMetrics
	require.NoError(t, tel.reader.Collect(t.Context(), &metrics))
	spansJSON, err := json.Marshal(spans)
	require.NoError(t, err)
	metricsJSON, err := json.Marshal(metrics)
	require.NoError(t, err)

	for route := range canaryCalls {
		_, path, _ := strings.Cut(route, " ")
		assert.Contains(t, string(spansJSON), path)
		assert.Contains(t, string(metricsJSON), path)
	}
	for _, recorded := range []string{string(spansJSON), string(metricsJSON), fmt.Sprintf("%+v %+v", spans, metrics)} {
		if hasCanary(recorded) {
			t.Errorf("a marked value was recorded: %s", recorded)
		}
	}
}

func hasCanary(s string) bool {
	for _, c := range canaries {
		if strings.Contains(strings.ToLower(s), strings.ToLower(c)) {
			return true
		}
	}
	return false
}
