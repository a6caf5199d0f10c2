package lending

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"strings"
	"sync"
)

// SignatureHeader is the header of a webhook delivery that holds its signature.
const SignatureHeader = "abp-webhook-signature"

// ErrSignature is found by errors.Is in every error of [Verify].
var ErrSignature = errors.New("lending: webhook signature not accepted")

// Why a signature is not accepted. Made once: a flood of forgeries costs no memory.
var (
	errNoSecret         = fmt.Errorf("%w: there is no secret to check it with", ErrSignature)
	errNoSignature      = fmt.Errorf("%w: the header is missing or repeated", ErrSignature)
	errSignatureDiffers = fmt.Errorf("%w: it was not made of this body with this secret", ErrSignature)
)

const (
	signaturePrefix = "sha256="
	signatureLength = len(signaturePrefix) + 3*sha256.Size - 1
)

// Sign returns the signature of a webhook delivery: HMAC-SHA256 of the exact bytes of
// body under the whole secret, as "sha256=" and 32 bytes in upper-case hexadecimal
// with hyphens between them. Tests of a receiver need it.
func Sign(secret string, body []byte) string {
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

// Verify returns nil if signature is [Sign] of body with secret, and an error that is
// [ErrSignature] if not. It takes the same time wherever the two differ.
//
// body must be the bytes as they were received: JSON that was decoded and encoded
// again has another signature. An empty secret verifies nothing.
//
// A genuine delivery can be sent again by anybody who has seen it: see webhook.Once.
func Verify(secret string, body []byte, signature string) error {
	switch {
	case secret == "":
		return errNoSecret
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

// signers keeps states that have taken in their secret: most programs have one
// secret, and to begin with it anew costs a quarter of the time and all of the
// memory that a verification takes.
var signers = sync.Pool{New: func() any { return new(signer) }}

type signer struct {
	secret     string
	mac        hash.Hash
	own, given [sha256.Size]byte
}

// sum returns the HMAC of body, which is good until the next call.
func (m *signer) sum(secret string, body []byte) []byte {
	if m.mac != nil && m.secret == secret {
		m.mac.Reset()
	} else {
		m.mac, m.secret = hmac.New(sha256.New, []byte(secret)), secret
	}
	m.mac.Write(body)
	return m.mac.Sum(m.own[:0])
}

// parse reads a signature of exactly the documented form into given.
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

// digitValue is the value of a digit, and 0xFF of any other byte.
var digitValue = func() (values [256]byte) {
	for c := range values {
		values[c] = byte(strings.IndexByte(digits, byte(c))) // -1 is 0xFF
	}
	return values
}()
