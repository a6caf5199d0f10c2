// Package delivery has a signed webhook delivery for tests, and posts deliveries to a handler.
package delivery

import (
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/webhook"
)

// A delivery of the service.
const (
	// Secret is the secret of the subscription.
	Secret = "whs_0123456789abcdef0123456789abcdef"
	// EventID is the id in Body.
	EventID = "3fa85f64-5717-4562-b3fc-2c963f66afa6"
	// Data is the data in Body.
	Data = `{"applicationId":"11111111-2222-3333-4444-555555555555","extraInformation":{"years":"7"}}`
	// Body is the whole event.
	Body = `{"id":"` + EventID + `","webhookEvent":"WB_Application_Created","data":` + Data +
		`,"creationTimeUtc":"2024-01-02T03:04:05.1234567Z"}`
	// Signature is the signature of Body with Secret, computed with openssl.
	Signature = "sha256=E6-A7-03-D9-0C-55-E7-C0-AA-B2-24-07-C6-D2-8A-39-" +
		"F6-D5-DD-B2-5A-0E-AF-7E-9D-9D-AA-1C-03-49-FA-47"
)

// Sign signs body with Secret.
func Sign(body string) string { return lending.Sign(Secret, []byte(body)) }

// Post posts body to handler, signed with Secret, and returns the status of the response.
func Post(handler http.Handler, body string) int {
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/webhooks", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(webhook.SignatureHeader, Sign(body))
	handler.ServeHTTP(w, r)
	return w.Code
}
