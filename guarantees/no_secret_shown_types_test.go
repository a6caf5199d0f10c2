package guarantees_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/shown"
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/webhook"
)

// TestClientInUseCanBePrinted prints and compares clients, sessions and logs in every way while
// calls use them. Without a lock the race detector reports a data race, or "concurrent map
// iteration and map write" ends the process.
func TestClientInUseCanBePrinted(t *testing.T) {
	service := lendingtest.New()
	store, inbox := lending.NewMemoryTokenStore(), webhook.NewMemoryInbox()
	client := wire.NewClient(t, "https://lending.example",
		lending.WithHTTPClient(&http.Client{Transport: service.Transport()}), lending.WithTokenStore(store),
		lending.WithCredentials(lending.Credentials{
			Username: lendingtest.Username, Password: lending.NewSecret(lendingtest.Password),
			TrustedDeviceToken: lending.NewSecret(lendingtest.TrustedDeviceToken),
		}))
	encrypted, err := lending.NewEncryptedTokenStore(store, make([]byte, 32))
	require.NoError(t, err)
	alive := []any{client, *client, client.Session(), client.Loans, inbox, store, encrypted}

	text := shown.Beside(t, alive, func(ctx context.Context) {
		if token, err := client.Session().Token(ctx); err == nil && rand.IntN(3) == 0 {
			client.Session().Invalidate(token)
			_ = client.Session().SignIn(ctx)
		}
		_, _ = client.Webhooks.AllSubscriptions(ctx)
		_ = inbox.Put(ctx, &webhook.Event{Name: lending.EventName(uuid.NewString())})
		_, _ = store.Acquire(ctx, "me", time.Minute)
	})
	for _, hidden := range []string{
		lendingtest.Password, lendingtest.TrustedDeviceToken, lendingtest.Username,
	} {
		assert.NotContains(t, text, hidden)
	}
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
