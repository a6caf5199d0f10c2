package lending

import (
	"crypto/fips140"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"hash"
	"strings"
	"sync"
)

// The errors of Verify are made once, so that a flood of forgeries allocates nothing.
var (
	errNoSecret         = fmt.Errorf("%w: the secret is empty; pass the secret of the subscription", ErrSignature)
	errShortSecret      = fmt.Errorf("%w: GODEBUG=fips140=only allows no secret below 14 bytes; use a longer secret", ErrSignature)
	errNoSignature      = fmt.Errorf("%w: the signature is empty; the sender is not the service", ErrSignature)
	errSignatureDiffers = fmt.Errorf("%w: the body was changed, or signed with another secret; compare the secret with that of the subscription", ErrSignature)
)

const (
	signaturePrefix = "sha256="
	signatureLength = len(signaturePrefix) + 3*sha256.Size - 1
)

// Sign returns the signature that the service sends with a delivery of body. Use it to test a
// receiver. The signature is the HMAC-SHA256 of body under secret, written as "sha256=" and 32
// bytes in upper-case hexadecimal with hyphens between them.
//
// If secret is shorter than 14 bytes and the program runs with GODEBUG=fips140=only, Sign
// returns "": crypto/hmac refuses such keys then.
func Sign(secret string, body []byte) string {
	if isTooShort(secret) {
		return ""
	}
	m := signers.Get().(*signer)
	defer signers.Put(m)
	text := make([]byte, 0, signatureLength)
	text = append(text, signaturePrefix...)
	for i, b := range m.sum(secret, body) {
		if i > 0 {
			text = append(text, '-')
		}
		text = append(text, digits[b>>4], digits[b&15])
	}
	return string(text)
}

// Verify returns nil if signature is [Sign] of body with secret. Otherwise the error is
// [ErrSignature]. The comparison takes constant time.
//
// Pass the bytes of the body as they arrived: JSON that was decoded and encoded again has
// another signature. An empty secret verifies nothing, nor does a secret shorter than 14 bytes
// if the program runs with GODEBUG=fips140=only.
//
// A signature does not expire: anybody who has seen a delivery can send it again. webhook.Inbox
// skips such repetitions.
func Verify(secret string, body []byte, signature string) error {
	switch {
	case secret == "":
		return errNoSecret
	case isTooShort(secret):
		return errShortSecret
	case signature == "":
		return errNoSignature
	}
	m := signers.Get().(*signer)
	defer signers.Put(m)
	if !m.parse(signature) || !hmac.Equal(m.sum(secret, body), m.given[:]) {
		return errSignatureDiffers
	}
	return nil
}

// isTooShort reports whether crypto/hmac would panic because of the length of secret.
func isTooShort(secret string) bool { return len(secret) < 14 && fips140.Enforced() }

// signers keeps HMAC states with their secret. Most programs have one secret, and a new state
// costs a quarter of the time and all of the memory of a verification.
var signers = sync.Pool{New: func() any { return new(signer) }}

type signer struct {
	secret     string
	mac        hash.Hash
	own, given [sha256.Size]byte
}

// sum returns the HMAC of body, which is valid until the next call.
func (m *signer) sum(secret string, body []byte) []byte {
	if m.mac != nil && m.secret == secret {
		m.mac.Reset()
	} else {
		m.mac, m.secret = hmac.New(sha256.New, []byte(secret)), secret
	}
	m.mac.Write(body)
	return m.mac.Sum(m.own[:0])
}

// parse reads a signature into given. It accepts only the documented form.
func (m *signer) parse(signature string) bool {
	if len(signature) != signatureLength || signature[:len(signaturePrefix)] != signaturePrefix {
		return false
	}
	text := signature[len(signaturePrefix):]
	odd := byte(0)
	for i := range m.given {
		if i > 0 {
			odd |= text[0] ^ '-'
			text = text[1:]
		}
		high, low := digitValue[text[0]], digitValue[text[1]]
		odd |= (high | low) & 0xF0
		m.given[i] = high<<4 | low
		text = text[2:]
	}
	return odd == 0
}

const digits = "0123456789ABCDEF"

// digitValue maps a digit to its value, and any other byte to 0xFF.
var digitValue = func() (values [256]byte) {
	for c := range values {
		values[c] = byte(strings.IndexByte(digits, byte(c))) // -1 is 0xFF
	}
	return values
}()
