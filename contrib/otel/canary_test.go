package lendingotel_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	lendingotel "github.com/lendingapi/lending-go/contrib/otel"
)

const canary = "canary"

var (
	canaryID = uuid.MustParse("ca4a12ca-4a12-4ca4-a12c-a4a12ca4a12c")

	// canaries are the markers that every call sends. The last is the base64 form of the first.
	canaries = []string{canary, canaryID.String(), base64.RawStdEncoding.EncodeToString([]byte(canary))}
)

// canaryCalls send marked values in path, query, body, header and file.
var canaryCalls = map[string]func(context.Context, *lending.Client) error{
	"GET /api/Customer/get-customer-by-email": func(ctx context.Context, c *lending.Client) error {
		_, err := c.Customers.GetByEmail(ctx, "canary@example.com")
		return err
	},
	"POST /api/Application/create-customer": func(ctx context.Context, c *lending.Client) error {
		_, err := c.Applications.CreateCustomer(ctx, lending.UserRequest{
			FirstName: canary, LastName: canary, Email: "canary@example.com", Password: lending.NewSecret(canary),
			MobileNumber: "4155550100", Extra: map[string]string{"more": canary},
		})
		return err
	},
	"POST /api/Application/submit-bankstatement-document/{applicationId}": func(
		ctx context.Context, c *lending.Client,
	) error {
		return c.Applications.SubmitBankStatement(ctx, lending.ApplicationID(canaryID),
			lending.Document{Name: "canary.pdf", Content: strings.NewReader(canary)})
	},
	"POST /api/ApplicationApproval/set-primary-bank-account/{applicationId}/{id}": func(
		ctx context.Context, c *lending.Client,
	) error {
		_, err := c.Do(ctx, lending.RawRequest{
			Method: http.MethodPost, Path: "/api/ApplicationApproval/set-primary-bank-account/{applicationId}/{id}",
			Args: []string{canaryID.String(), canary}, Query: url.Values{canary: {canary}},
			Body: map[string]string{canary: canary},
		})
		return err
	},
}

// canaryAnswers quote the whole request in place of %s, token included, wherever an answer has room.
var canaryAnswers = map[string]string{
	"success": wire.RawReply(200, nil, `"%s"`),
	"problem": wire.RawReply(400, map[string]string{"WWW-Authenticate": "Bearer error=%s"},
		`{"status":400,"title":"%s","detail":"%s","instance":"%s","traceId":"%s","correlationId":"%s","errorCode":"%s",`+
			`"errors":[{"field":"%s","message":"%s","code":"%s"}]}`),
	"codes": wire.RawReply(400, nil, // that look like names, which an error shows
		`{"status":400,"traceId":"canary","correlationId":"canary","errorCode":"canary",`+
			`"errors":[{"field":"canary","message":"canary","code":"canary"}]}`),
	"page":             wire.RawReply(200, map[string]string{"Content-Type": "text/html; title=canary"}, "<pre>%s"),
	"cut":              "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n%s",
	"malformed status": "HTTP/1.1 2x0 canary\r\n\r\n",
}

// raw writes answer in place of a response.
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
			client := wire.NewClient(t, service.URL, lending.WithTokenSource(lending.StaticToken("canary-token")),
				tel.observe(lendingotel.WithBaseURL(service.URL)))
			for route := range canaryCalls {
				quoted := false // a read is answered properly when it comes again
				service.Answer(route, func(w http.ResponseWriter, r *http.Request) {
					request, err := httputil.DumpRequest(r, true)
					assert.NoError(t, err)
					assert.True(t, hasCanary(strings.ReplaceAll(string(request), "canary-token", "")), route)
					if quoted {
						wire.Answer(http.StatusOK, "null")(w, r)
						return
					}
					quoted = true
					echo := strings.NewReplacer("\r", " ", "\n", " ", `"`, "'", `\`, "/").Replace(string(request))
					text := strings.ReplaceAll(answer, "%s", echo)
					if head, body, ok := strings.Cut(text, "\r\n\r\n"); ok && name != "cut" {
						text = strings.Replace(head, "Content-Length: ", "Connection: close\r\nWas: ", 1) + "\r\n\r\n" + body
					}
					raw(w, text)
				})
			}
			callAll(t, client)
			tel.assertNoCanary(t)
		})
	}
}

// callAll makes all calls concurrently.
func callAll(t *testing.T, client *lending.Client) {
	t.Helper()
	member, err := baggage.NewMember(canary, canary)
	require.NoError(t, err)
	bag, err := baggage.New(member)
	require.NoError(t, err)
	var calls sync.WaitGroup
	for _, call := range canaryCalls {
		calls.Go(func() { _ = call(baggage.ContextWithBaggage(t.Context(), bag), client) })
	}
	calls.Wait()
}

func (tel *telemetry) assertNoCanary(t *testing.T) {
	t.Helper()
	var metrics metricdata.ResourceMetrics
	require.NoError(t, tel.reader.Collect(t.Context(), &metrics))
	for _, recorded := range []any{tel.spans.GetSpans(), metrics} {
		text, err := json.Marshal(recorded)
		require.NoError(t, err)
		for route := range canaryCalls {
			_, path, _ := strings.Cut(route, " ")
			assert.Contains(t, string(text), path)
		}
		assert.False(t, hasCanary(fmt.Sprintf("%s %+v", text, recorded)), "a marked value was recorded: %s", text)
	}
}

func hasCanary(s string) bool {
	return slices.ContainsFunc(canaries, func(c string) bool {
		return strings.Contains(strings.ToLower(s), strings.ToLower(c))
	})
}
