package lending_test

import (
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
	"github.com/lendingapi/lending-go/internal/test/delivery"
	"github.com/lendingapi/lending-go/internal/test/fips"
	"github.com/lendingapi/lending-go/internal/test/race"
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
	text, err := os.ReadFile("testdata/signatures.json")
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
	for _, part := range []string{"body", "signature"} {
		t.Run(part, func(t *testing.T) {
			body, signature := []byte(delivery.Body), []byte(delivery.Signature)
			changed := map[string][]byte{"body": body, "signature": signature}[part]
			verify := func() error { return lending.Verify(delivery.Secret, body, string(signature)) }
			require.NoError(t, verify())
			for i := range changed {
				for bit := byte(1); bit != 0; bit <<= 1 {
					changed[i] ^= bit
					require.ErrorIs(t, verify(), lending.ErrSignature, "byte %d, bit %#x", i, bit)
					changed[i] ^= bit
				}
			}
		})
	}
}

func TestVerifyTakesOnlyTheDocumentedForm(t *testing.T) {
	const good = delivery.Signature
	for _, signature := range []string{
		"", " ", "sha256=", good[:94], good + "-", good + "-00", " " + good, good + " ", strings.ToLower(good),
		strings.ToUpper(good), strings.ReplaceAll(good, "-", ""), strings.TrimPrefix(good, "sha256="),
		"sha1=" + good[7:], good + "," + good,
	} {
		t.Run(signature, func(t *testing.T) {
			err := lending.Verify(delivery.Secret, []byte(delivery.Body), signature)
			require.ErrorIs(t, err, lending.ErrSignature, "%q")
			require.NotContains(t, fmt.Sprintf("%v %+v %#v", err, err, err), "E6", "an error showed a signature")
		})
	}
	empty := lending.Sign("", []byte(delivery.Body))
	require.ErrorIs(t, lending.Verify("", []byte(delivery.Body), empty), lending.ErrSignature)
}

// A kept HMAC state must never answer for another secret or another body.
func TestVerifyKeepsSecretsApart(t *testing.T) {
	t.Parallel()
	done := make(chan error)
	for g := range 8 {
		go func() {
			for i := range 500 {
				secret, other := fmt.Sprint("secret ", (g+i)%3), fmt.Sprint("secret ", (g+i+1)%3)
				body := []byte(fmt.Sprint("body ", g, i))
				signature := formatted(macOf(secret, body))
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

func macOf(secret string, body []byte) []byte {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return mac.Sum(nil)
}

func formatted(mac []byte) string {
	return "sha256=" + strings.ReplaceAll(fmt.Sprintf("% X", mac), " ", "-")
}

// A collection empties the pool of states. The average over many runs hides that.
func TestVerifyAllocatesNothing(t *testing.T) {
	if race.Enabled {
		t.Skip("with the race detector a pool forgets every fourth state")
	}
	body := []byte(delivery.Body)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		_ = lending.Verify(delivery.Secret, body, delivery.Signature)
	}))
}

// GODEBUG=fips140=only makes crypto/hmac panic for keys below 14 bytes.
func TestShortSecretsUnderFIPSOnly(t *testing.T) {
	if !fips.Only(t) {
		return
	}
	require.Panics(t, func() { macOf("13 characters", nil) }, "the mode is not on")
	for _, tt := range []struct {
		secret string
		works  bool
	}{{"x", false}, {"13 characters", false}, {"14 characters!", true}, {delivery.Secret, true}} {
		t.Run(tt.secret, func(t *testing.T) {
			signature := lending.Sign(tt.secret, []byte(delivery.Body))
			require.Equal(t, tt.works, signature != "")
			err := lending.Verify(tt.secret, []byte(delivery.Body), signature)
			if tt.works {
				require.NoError(t, err)
				return
			}
			err = lending.Verify(tt.secret, []byte(delivery.Body), delivery.Signature)
			require.ErrorIs(t, err, lending.ErrSignature)
			require.ErrorContains(t, err, "use a longer secret")
		})
	}
}

func FuzzVerify(f *testing.F) {
	for _, v := range signatureVectors(f) {
		f.Add(v.Secret, v.body(), v.Signature)
	}
	f.Add(delivery.Secret, []byte(delivery.Body), strings.ToLower(delivery.Signature))
	f.Fuzz(func(t *testing.T, secret string, body []byte, signature string) {
		// The header read in another way: as hexadecimal, then written back.
		sum, err := hex.DecodeString(strings.ReplaceAll(strings.TrimPrefix(signature, "sha256="), "-", ""))
		want := err == nil && hmac.Equal(sum, macOf(secret, body)) && secret != "" && signature == formatted(sum)
		if got := lending.Verify(secret, body, signature) == nil; got != want {
			t.Errorf("Verify = %t, want %t", got, want)
		}
		if secret != "" && lending.Verify(secret, body, lending.Sign(secret, body)) != nil {
			t.Error("Verify refuses what Sign wrote")
		}
	})
}
