package guarantees_test

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/delivery"
	"github.com/lendingapi/lending-go/webhook"
)

// deliveryOf returns a delivery of size bytes, similar to the service's data.
func deliveryOf(size int) []byte {
	const (
		head   = `{"id":"` + delivery.EventID + `","webhookEvent":"WB_Application_Created","data":[`
		record = `{"applicationId":"11111111-2222-3333-4444-555555555555","status":"Under review","amount":2500.00,` +
			`"extraInformation":{"years":"7"}},`
		tail = `],"creationTimeUtc":"2024-01-02T03:04:05.1234567Z"}`
	)
	space := size - len(head+tail) - 2
	last := `"` + strings.Repeat("x", space%len(record)) + `"`
	return []byte(head + strings.Repeat(record, space/len(record)) + last + tail)
}

// BenchmarkWebhook receives a delivery. The floors are crypto/hmac alone, and crypto/hmac and
// encoding/json where the library parses the event.
func BenchmarkWebhook(b *testing.B) {
	for _, size := range []int{2 << 10, 64 << 10} {
		body := deliveryOf(size)
		signature := lending.Sign(delivery.Secret, body)
		key := []byte(delivery.Secret)
		sum, err := hex.DecodeString(strings.ReplaceAll(strings.TrimPrefix(signature, "sha256="), "-", ""))
		require.NoError(b, err)
		genuine := func() error {
			mac := hmac.New(sha256.New, key)
			mac.Write(body)
			return expect(hmac.Equal(mac.Sum(nil), sum), nil)
		}
		verified := func() error { return lending.Verify(delivery.Secret, body, signature) }
		b.Run(fmt.Sprintf("%dK/verified", size>>10), func(b *testing.B) { versus(b, genuine, verified) })
		b.Run(fmt.Sprintf("%dK/verified and parsed", size>>10), func(b *testing.B) {
			versus(b, func() error {
				var envelope struct {
					ID, WebhookEvent, CreationTimeUtc string
					Data                              json.RawMessage
				}
				return cmp.Or(genuine(), json.Unmarshal(body, &envelope))
			}, func() error {
				_, err := webhook.Parse(body)
				return cmp.Or(verified(), err)
			})
		})
	}
}
