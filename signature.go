package lending

import (
	"crypto/fips140"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"hash"
	"sync"
)

// The errors of Verify are made once, so that a flood of forgeries allocates nothing.
var (
	errNoSecret         = fmt.Errorf("%w: the secret is empty; pass the secret of the subscription", ErrSignature)
	errShortSecret      = fmt.Errorf("%w: GODEBUG=fips140=only allows no secret below 14 bytes; use a longer secret", ErrSignature)
	errNoSignature      = fmt.Errorf("%w: the signature is empty; the sender is not the service", ErrSignature)
	errSignatureDiffers = fmt.Errorf("%w: the body was changed, or signed with another secret; compare the secret with that of the subscription", ErrSignature)
)

const signatureLength = len("sha256=") + 3*sha256.Size - 1

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
	return string(m.sign(secret, body))
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
	case len(signature) != signatureLength:
		return errSignatureDiffers
	}
	m := signers.Get().(*signer)
	defer signers.Put(m)
	m.given = append(m.given[:0], signature...)
	if !hmac.Equal(m.sign(secret, body), m.given) {
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
	secret      string
	mac         hash.Hash
	sum         [sha256.Size]byte
	text, given []byte
}

// sign returns the signature of body, which is valid until the next call.
func (m *signer) sign(secret string, body []byte) []byte {
	if m.mac != nil && m.secret == secret {
		m.mac.Reset()
	} else {
		m.mac, m.secret = hmac.New(sha256.New, []byte(secret)), secret
	}
	m.mac.Write(body)
	m.text = append(m.text[:0], "sha256"...)
	separator := byte('=')
	for _, b := range m.mac.Sum(m.sum[:0]) {
		m.text = append(m.text, separator, digits[b>>4], digits[b&15])
		separator = '-'
	}
	return m.text
}

const digits = "0123456789ABCDEF"
