package lendingotel_test

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	lendingotel "github.com/lendingapi/lending-go/contrib/otel"
)

const canary = "canary"

var canaryID = uuid.MustParse("ca4a12ca-4a12-4ca4-a12c-a4a12ca4a12c")

// canaryAnswers quote the whole request in place of %s, token included, wherever an answer has room. Each ends with its
// connection.
var canaryAnswers = map[string]string{
	"success": "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n\"%s\"",
	"problem": "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nWWW-Authenticate: Bearer error=%s\r\n\r\n" +
		`{"status":400,"title":"%s","detail":"%s","instance":"%s","traceId":"%s","correlationId":"%s","errorCode":"%s",` +
		`"errors":[{"field":"%s","message":"%s","code":"%s"}]}`,
	"codes": wire.RawReply(400, nil, // that look like names, which an error shows
		`{"status":400,"traceId":"canary","correlationId":"canary","errorCode":"canary",`+
			`"errors":[{"field":"canary","message":"canary","code":"canary"}]}`),
	"page":             "HTTP/1.1 200 OK\r\nContent-Type: text/html; title=canary\r\n\r\n<pre>%s",
	"cut":              "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n%s",
	"malformed status": "HTTP/1.1 2x0 canary\r\n\r\n",
}

// TestCanary sends marked values in path, query, body, header and file to each response, and searches all recorded
// telemetry for the markers.
func TestCanary(t *testing.T) {
	member, err := baggage.NewMember(canary, canary)
	require.NoError(t, err)
	bag, err := baggage.New(member)
	require.NoError(t, err)
	for name, answer := range canaryAnswers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tel, ctx := newTelemetry(), baggage.ContextWithBaggage(t.Context(), bag)
			address := "http://" + wire.ListenRaw(t, func(conn net.Conn) {
				r, err := http.ReadRequest(bufio.NewReader(conn))
				assert.NoError(t, err)
				request, err := httputil.DumpRequest(r, true)
				assert.NoError(t, err)
				assert.True(t, hasCanary(strings.ReplaceAll(string(request), "canary-token", "")), r.URL.Path)
				echo := strings.NewReplacer("\r", " ", "\n", " ", `"`, "'", `\`, "/").Replace(string(request))
				_, _ = io.WriteString(conn, strings.ReplaceAll(answer, "%s", echo))
			})
			client := wire.NewClient(t, address, lending.WithTokenSource(lending.StaticToken("canary-token")),
				lending.WithReadRetries(0), tel.observe(lendingotel.WithBaseURL(address)))
			_, _ = client.Customers.GetByEmail(ctx, "canary@example.com")
			_, _ = client.Applications.CreateCustomer(ctx, lending.UserRequest{
				FirstName: canary, LastName: canary, Email: "canary@example.com", Password: lending.NewSecret(canary),
				MobileNumber: "4155550100", Extra: map[string]string{"more": canary},
			})
			_ = client.Applications.SubmitBankStatement(ctx, lending.ApplicationID(canaryID),
				lending.Document{Name: "canary.pdf", Content: strings.NewReader(canary)})
			_, _ = client.Do(ctx, lending.RawRequest{
				Method: http.MethodPost, Path: "/api/ApplicationApproval/set-primary-bank-account/{applicationId}/{id}",
				Args: []string{canaryID.String(), canary}, Query: url.Values{canary: {canary}},
				Body: map[string]string{canary: canary},
			})
			tel.assertNoCanary(t)
		})
	}
}

func (tel *telemetry) assertNoCanary(t *testing.T) {
	t.Helper()
	var metrics metricdata.ResourceMetrics
	require.NoError(t, tel.reader.Collect(t.Context(), &metrics))
	spans := tel.spans.GetSpans()
	assert.Len(t, spans, 2*4, "of calls and attempts")
	for _, recorded := range []any{spans, metrics} {
		text, err := json.Marshal(recorded)
		require.NoError(t, err)
		assert.False(t, hasCanary(fmt.Sprintf("%s %+v", text, recorded)), "a marked value was recorded: %s", text)
	}
}

func hasCanary(s string) bool {
	return slices.ContainsFunc([]string{
		canary, canaryID.String(), base64.RawStdEncoding.EncodeToString([]byte(canary)),
	}, func(c string) bool { return strings.Contains(strings.ToLower(s), strings.ToLower(c)) })
}
