package guarantees_test

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/race"
	"github.com/lendingapi/lending-go/webhook"
)

const (
	signingSecret  = "whs_0123456789abcdef0123456789abcdef"
	deliveryBody   = `{"id":"3fa85f64-5717-4562-b3fc-2c963f66afa6","webhookEvent":"WB_Application_Created","data":{"applicationId":"11111111-2222-3333-4444-555555555555","extraInformation":{"years":"7"}},"creationTimeUtc":"2024-01-02T03:04:05.1234567Z"}`
	deliverySigned = "sha256=E6-A7-03-D9-0C-55-E7-C0-AA-B2-24-07-C6-D2-8A-39-F6-D5-DD-B2-5A-0E-AF-7E-9D-9D-AA-1C-03-49-FA-47"
)

// signatureVector is one of testdata/signatures.json, which openssl and Python wrote.
type signatureVector struct {
	Name, Secret, Signature string
	BodyBase64              []byte
	Repeat                  struct {
		Head, Fill, Tail string
		Count            int
	}
}

func (v signatureVector) body() []byte {
	if v.Repeat.Count > 0 {
		return []byte(v.Repeat.Head + strings.Repeat(v.Repeat.Fill, v.Repeat.Count) + v.Repeat.Tail)
	}
	return v.BodyBase64
}

func signatureVectors(tb testing.TB) []signatureVector {
	tb.Helper()
	text, err := os.ReadFile("../testdata/signatures.json")
	require.NoError(tb, err)
	var file struct{ Vectors []signatureVector }
	require.NoError(tb, json.Unmarshal(text, &file))
	require.Greater(tb, len(file.Vectors), 10)
	return file.Vectors
}

func TestSignaturesOfOtherPrograms(t *testing.T) {
	for _, v := range signatureVectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			require.Equal(t, v.Signature, lending.Sign(v.Secret, v.body()))
			require.NoError(t, lending.Verify(v.Secret, v.body(), v.Signature))
			require.ErrorIs(t, lending.Verify(v.Secret+"x", v.body(), v.Signature), lending.ErrSignature)
		})
	}
}

func TestVerifyRefusesEveryChangedBit(t *testing.T) {
	verify := func(body, signature []byte) error {
		return lending.Verify(signingSecret, body, string(signature))
	}
	for name, changed := range map[string]func(i int, bit byte) error{
		"signature": func(i int, bit byte) error {
			signature := []byte(deliverySigned)
			signature[i%len(signature)] ^= bit
			return verify([]byte(deliveryBody), signature)
		},
		"body": func(i int, bit byte) error {
			body := []byte(deliveryBody)
			body[i%len(body)] ^= bit
			return verify(body, []byte(deliverySigned))
		},
	} {
		for i := range max(len(deliveryBody), len(deliverySigned)) {
			for bit := byte(1); bit != 0; bit <<= 1 {
				require.ErrorIs(t, changed(i, bit), lending.ErrSignature, "%s: byte %d, bit %#x", name, i, bit)
			}
		}
	}
	require.NoError(t, verify([]byte(deliveryBody), []byte(deliverySigned)))
}

func TestVerifyTakesOnlyTheDocumentedForm(t *testing.T) {
	for _, signature := range []string{
		"", " ", "sha256=", deliverySigned[:94], deliverySigned + "-", deliverySigned + "-00", " " + deliverySigned, deliverySigned + " ",
		strings.ToLower(deliverySigned), strings.ToUpper(deliverySigned), strings.ReplaceAll(deliverySigned, "-", ""),
		strings.TrimPrefix(deliverySigned, "sha256="), "sha1=" + deliverySigned[7:], deliverySigned + "," + deliverySigned,
	} {
		err := lending.Verify(signingSecret, []byte(deliveryBody), signature)
		require.ErrorIs(t, err, lending.ErrSignature, "%q", signature)
		require.NotContains(t, fmt.Sprintf("%v %+v %#v", err, err, err), "E6", "an error showed a signature")
	}
	require.ErrorIs(t, lending.Verify("", []byte(deliveryBody), lending.Sign("", []byte(deliveryBody))), lending.ErrSignature)
}

// Two secrets in turn, from many goroutines: a kept state must never answer for
// another secret or another body.
func TestVerifyKeepsSecretsApart(t *testing.T) {
	t.Parallel()
	done := make(chan error)
	for g := range 8 {
		go func() {
			for i := range 500 {
				secret, other := fmt.Sprint("secret ", (g+i)%3), fmt.Sprint("secret ", (g+i+1)%3)
				body := []byte(fmt.Sprint("body ", g, i))
				mac := hmac.New(sha256.New, []byte(secret))
				mac.Write(body)
				signature := "sha256=" + strings.ReplaceAll(fmt.Sprintf("% X", mac.Sum(nil)), " ", "-")
				if lending.Verify(secret, body, signature) != nil || lending.Verify(other, body, signature) == nil {
					done <- fmt.Errorf("mixed up at %d %d", g, i)
					return
				}
			}
			done <- nil
		}()
	}
	for range 8 {
		require.NoError(t, <-done)
	}
}

// A collection empties the pool of states: the average over many runs rounds that off.
func TestVerifyAllocatesNothing(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector has a pool forget every fourth state")
	}
	body := []byte(deliveryBody)
	require.Zero(t, testing.AllocsPerRun(1000, func() { _ = lending.Verify(signingSecret, body, deliverySigned) }))
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { _, _ = webhook.Parse(body) }), 5.0)
}

func FuzzVerify(f *testing.F) {
	for _, v := range signatureVectors(f) {
		f.Add(v.Secret, v.body(), v.Signature)
	}
	f.Add(signingSecret, []byte(deliveryBody), strings.ToLower(deliverySigned))
	f.Fuzz(func(t *testing.T, secret string, body []byte, signature string) {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write(body)
		// The header read in another way: as hexadecimal, then written back.
		sum, err := hex.DecodeString(strings.ReplaceAll(strings.TrimPrefix(signature, "sha256="), "-", ""))
		want := err == nil && hmac.Equal(sum, mac.Sum(nil)) && secret != "" &&
			signature == "sha256="+strings.ReplaceAll(fmt.Sprintf("% X", sum), " ", "-")
		if got := lending.Verify(secret, body, signature) == nil; got != want {
			t.Errorf("Verify = %t, want %t", got, want)
		}
		if secret != "" && lending.Verify(secret, body, lending.Sign(secret, body)) != nil {
			t.Error("Verify refuses what Sign wrote")
		}
	})
}

// delivery is a delivery of size bytes, with the texture of the service's data.
func delivery(size int) []byte {
	const (
		head   = `{"id":"3fa85f64-5717-4562-b3fc-2c963f66afa6","webhookEvent":"WB_Application_Created","data":[`
		record = `{"applicationId":"11111111-2222-3333-4444-555555555555","status":"Under review","amount":2500.00,"extraInformation":{"years":"7"}},`
		tail   = `],"creationTimeUtc":"2024-01-02T03:04:05.1234567Z"}`
	)
	space := size - len(head+tail) - 2
	return []byte(head + strings.Repeat(record, space/len(record)) + `"` + strings.Repeat("x", space%len(record)) + `"` + tail)
}

// BenchmarkWebhook takes in a delivery. The floors are crypto/hmac alone, and encoding/json
// after it where ours parses too.
func BenchmarkWebhook(b *testing.B) {
	for _, size := range []int{2 << 10, 64 << 10} {
		body := delivery(size)
		signature := lending.Sign(signingSecret, body)
		key := []byte(signingSecret)
		sum, err := hex.DecodeString(strings.ReplaceAll(strings.TrimPrefix(signature, "sha256="), "-", ""))
		require.NoError(b, err)
		genuine := func() error {
			mac := hmac.New(sha256.New, key)
			mac.Write(body)
			return expect(hmac.Equal(mac.Sum(nil), sum), nil)
		}
		verified := func() error { return lending.Verify(signingSecret, body, signature) }
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
