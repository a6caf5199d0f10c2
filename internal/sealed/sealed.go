// Package sealed encrypts what a store keeps with AES-256-GCM.
package sealed

import (
	"crypto/aes"
	"crypto/cipher"
	"errors"

	"github.com/lendingapi/lending-go/internal/opaque"
)

// ErrKey is the error of a key that is not 32 bytes long.
var ErrKey = errors.New("the key must be 32 random bytes")

// Box seals and opens texts with one key, which nothing prints.
type Box struct{ aead opaque.Value[cipher.AEAD] }

// New returns a box for a key of 32 random bytes.
func New(key []byte) (Box, error) {
	if len(key) != 32 {
		return Box{}, ErrKey
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return Box{}, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return Box{}, err
	}
	return Box{opaque.Hide(aead)}, nil
}

// Seal encrypts plain and binds it to context, which is not part of the result: Open needs
// the same context, so a text cannot be passed off as that of another place.
func (b Box) Seal(plain, context []byte) []byte {
	return b.aead().Seal(nil, nil, plain, context) //nolint:gosec // it makes its nonce
}

// Open decrypts a text of [Box.Seal]. It fails if the text, the key or the context differs.
func (b Box) Open(text, context []byte) ([]byte, error) {
	return b.aead().Open(nil, nil, text, context)
}
