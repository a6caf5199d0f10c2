// Package sealed encrypts the contents of a store with AES-256-GCM.
package sealed

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"

	"github.com/lendingapi/lending-go/internal/format"
	"github.com/lendingapi/lending-go/internal/opaque"
)

// ErrKey is the error of a key of another length than 32 bytes.
var ErrKey = errors.New("the key must be 32 random bytes")

// Box seals texts with a key and opens texts of several keys. Nothing prints the keys.
type Box struct{ aeads opaque.Value[[]cipher.AEAD] }

// New returns a box that seals with key and also opens texts of older keys. A key has 32 random
// bytes.
func New(key []byte, older ...[]byte) (Box, error) {
	var aeads []cipher.AEAD
	for _, key := range append([][]byte{key}, older...) {
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
		aeads = append(aeads, aead)
	}
	return Box{opaque.Hide(aeads)}, nil
}

// version is the version of an encrypted text, which begins with it.
const version format.Version = 1

// Seal encrypts plain and binds the result to context: Open needs the same context, so a text
// cannot be passed off as the text of another place.
func (b Box) Seal(plain, context []byte) []byte {
	return b.aeads()[0].Seal(binary.AppendUvarint(nil, uint64(version)), nil, plain, context) //nolint:gosec // it makes its nonce
}

// Check returns a [*format.NewerError] for a text of a newer release.
func Check(text []byte) error {
	written, _ := binary.Uvarint(text)
	return format.Version(min(written, 1<<31-1)).Check(version, "the encrypted text")
}

// Open decrypts a text of [Box.Seal]. It fails if the text or the context differs, or if the box
// lacks the key. For a text of a newer release the error is a [*format.NewerError].
func (b Box) Open(text, context []byte) (plain []byte, err error) {
	if err := Check(text); err != nil {
		return nil, err
	}
	if len(text) == 0 {
		return nil, errors.New("the text is empty")
	}
	text = text[1:] // of version 1
	for _, aead := range b.aeads() {
		if plain, err = aead.Open(nil, nil, text, context); err == nil {
			return plain, nil
		}
	}
	return nil, err
}
