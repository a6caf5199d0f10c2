package lending

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
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
	return string(m.sign(secret, body))
}

// Verify returns nil if signature is [Sign] of body with secret, and an error that is
// [ErrSignature] if not. It takes the same time wherever the two differ.
//
// body must be the bytes as they were received: JSON that was decoded and encoded
// again has another signature. An empty secret verifies nothing.
//
// A genuine delivery can be sent again by anybody who has seen it: see [Once].
func Verify(secret string, body []byte, signature string) error {
	switch {
	case secret == "":
		return errNoSecret
	case signature == "":
		return errNoSignature
	}
	m := signers.Get().(*signer)
	defer signers.Put(m)
	if !hmac.Equal(m.sign(secret, body), []byte(signature)) {
		return errSignatureDiffers
	}
	return nil
}

// signers keeps states that have taken in their secret: most programs have one
// secret, and to begin with it anew costs a quarter of the time and all of the
// memory that a verification takes.
var signers = sync.Pool{New: func() any { return new(signer) }}

type signer struct {
	secret string
	mac    hash.Hash
	sum    [sha256.Size]byte
	text   [signatureLength]byte
}

// sign returns the signature, which is good until the next call.
func (m *signer) sign(secret string, body []byte) []byte {
	if m.mac != nil && m.secret == secret {
		m.mac.Reset()
	} else {
		m.mac, m.secret = hmac.New(sha256.New, []byte(secret)), secret
	}
	m.mac.Write(body)
	const digits = "0123456789ABCDEF"
	text := append(m.text[:0], signaturePrefix...)
	for i, b := range m.mac.Sum(m.sum[:0]) {
		if i > 0 {
			text = append(text, '-')
		}
		text = append(text, digits[b>>4], digits[b&15])
	}
	return text
}
