package guarantees_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/webhook"
)

// TestSessionInUseCanBePrinted calls the methods of fmt while calls use the session. Without a lock the race
// detector reports a data race. TestPrintingReachesNoSharedState in tools holds the rule for fields.
func TestSessionInUseCanBePrinted(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		client := fake.SignIn(t, service, nil)
		var working sync.WaitGroup
		working.Go(func() { assert.NoError(t, client.Session().SignIn(t.Context())) })
		for range 30 {
			shown := fmt.Sprintf("%v %+v %#v", client, client.Session(), *client)
			assert.NotContains(t, shown, lendingtest.Password)
			bubble.Elapse(time.Millisecond)
		}
		working.Wait()
	})
}

// Response and ProblemDetails hide their content if fmt can call their methods. In an unexported
// field only a pointer is hidden, as their doc comments say.
func TestResponseIsHiddenWhereFmtCallsItsMethods(t *testing.T) {
	response := &lending.Response{StatusCode: 200, Body: []byte("hush")}
	problem := problemIn(t, []byte(`{"detail":"hush"}`))
	for _, v := range []any{
		response,
		*response,
		problem,
		*problem,
		[]lending.Response{*response},
		struct{ R lending.Response }{*response},
		struct{ p *lending.Response }{response},
		struct{ p *lending.ProblemDetails }{problem},
	} {
		t.Run(fmt.Sprintf("%T", v), func(t *testing.T) {
			shown := fmt.Sprintf("%v %+v %#v", v, v, v)
			assert.NotContains(t, shown, "hush")
			assert.NotContains(t, shown, "104 117 115 104")
		})
	}
	assert.Contains(t, fmt.Sprintf("%v", struct{ r lending.Response }{*response}), "104 117 115 104")
	assert.Contains(t, fmt.Sprintf("%v", struct{ p lending.ProblemDetails }{*problem}), "hush")

	var record lending.LoanResponse
	require.NoError(t, json.Unmarshal([]byte(`{"id":"11111111-2222-3333-4444-555555555555","borrower":"hush"}`),
		&record))
	event, err := webhook.Parse([]byte(`{"webhookEvent":"WB_Send_Otp","data":{"code":"hush"}}`))
	require.NoError(t, err)
	logged := func(v any) string {
		var b bytes.Buffer
		slog.New(slog.NewJSONHandler(&b, nil)).Info("m", "v", v)
		slog.New(slog.NewTextHandler(&b, nil)).Info("m", "v", v)
		return b.String()
	}
	for _, v := range []any{
		struct{ e webhook.Event }{*event},
		struct{ e *webhook.Event }{event},
		struct{ r []lending.LoanResponse }{[]lending.LoanResponse{record}},
		struct {
			p lending.Page[lending.LoanResponse]
		}{lending.Page[lending.LoanResponse]{Data: []lending.LoanResponse{record}}},
		[]*webhook.Event{event},
	} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
			shown := fmt.Sprintf(verb, v)
			for _, form := range []string{"hush", "104 117 115 104", "68757368"} {
				assert.NotContains(t, shown, form, verb)
			}
		}
	}
	assert.NotContains(t, logged(record), "hush")
	assert.NotContains(t, logged(event), "hush")
	assert.Contains(t, logged([]lending.LoanResponse{record}), "hush", "slog's JSON handler asks json.Marshal")
}
