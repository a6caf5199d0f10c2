package store

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/lendingapi/lending-go/internal/format"
	"github.com/lendingapi/lending-go/internal/opaque"
	"github.com/lendingapi/lending-go/internal/redact"
	"github.com/lendingapi/lending-go/internal/sealed"
)

// NewEncrypted returns a store that keeps its entries in inner, with encrypted data
// (AES-256-GCM) and hashed locks. key must be 32 random bytes. The idempotency keys, the states
// and the ages stay readable.
//
// An entry that was written with an unknown encryption key, or copied from another idempotency
// key, is an [ErrCorrupt]: the mutation is not sent.
//
// To rotate the encryption key, put the new key in front of the older keys. The store encrypts
// with the first key and decrypts with all keys. The last key also hashes the locks and must
// stay the last: processes with different last keys do not see each other's locks. During the
// deployment, processes without the new key get [ErrCorrupt] for the entries of the others. To
// prevent that, first deploy the keys old, new, old.
func NewEncrypted(inner Store, key []byte, older ...[]byte) (Store, error) {
	if inner == nil {
		return nil, redact.Text("lending/idempotency: NewEncrypted: the store must not be nil")
	}
	box, err := sealed.New(key, older...)
	if err != nil {
		return nil, redact.Text("lending/idempotency: NewEncrypted: " + err.Error())
	}
	if len(older) > 0 {
		key = older[len(older)-1]
	}
	locks := hmac.New(sha256.New, key)
	locks.Write([]byte("lending idempotency lock"))
	return encryptedStore{opaque.Hide(inner), box, opaque.Hide(locks.Sum(nil))}, nil
}

// encryptedStore hides the caller's store and the keys from fmt.
type encryptedStore struct {
	inner opaque.Value[Store]
	box   sealed.Box
	locks opaque.Value[[]byte] // the key of the hashes
}

// boundTo returns the additional data of an entry: key, revision and state. The data of another
// entry, or of an earlier revision, does not decrypt.
func boundTo(key string, revision int64, state State) []byte {
	return fmt.Appendf(nil, "%s\n%d\n%s", key, revision, state)
}

func (e encryptedStore) Save(ctx context.Context, entry Entry) error {
	return e.inner().Save(ctx, e.sealed(entry))
}

func (e encryptedStore) Replace(ctx context.Context, entries []Entry) (int, error) {
	all := make([]Entry, len(entries))
	for i, entry := range entries {
		all[i] = e.sealed(entry)
	}
	return e.inner().Replace(ctx, all)
}

// sealed encrypts the lock with the data, because the hash does not show the lock to Load.
func (e encryptedStore) sealed(entry Entry) Entry {
	plain := append(binary.AppendUvarint(nil, uint64(len(entry.Lock))), entry.Lock...)
	entry.Data = e.box.Seal(append(plain, entry.Data...), boundTo(entry.Key, entry.Revision+1, entry.State))
	if entry.Lock != "" {
		keyed := hmac.New(sha256.New, e.locks())
		keyed.Write([]byte(entry.Lock))
		entry.Lock = hex.EncodeToString(keyed.Sum(nil))
	}
	return entry
}

func (e encryptedStore) Load(ctx context.Context, key string) (*Entry, error) {
	entry, err := e.inner().Load(ctx, key)
	if err != nil || entry == nil {
		return nil, err
	}
	err = e.open(entry)
	return entry, err
}

// List returns an entry that does not decrypt without lock and data, as [Store.List] requires.
func (e encryptedStore) List(ctx context.Context, filter Filter) ([]Entry, error) {
	entries, err := e.inner().List(ctx, filter)
	for i := range entries {
		if e.open(&entries[i]) != nil {
			entries[i].Lock, entries[i].Data = "", nil
		}
	}
	return entries, err
}

func (e encryptedStore) open(entry *Entry) error {
	plain, err := e.box.Open(entry.Data, boundTo(entry.Key, entry.Revision, entry.State))
	if _, newer := errors.AsType[*format.NewerError](err); newer {
		return err
	}
	n, width := binary.Uvarint(plain)
	if err != nil || width <= 0 || n > uint64(len(plain)-width) { //nolint:gosec // width is at most the length
		return ErrCorrupt
	}
	entry.Lock, entry.Data = string(plain[width:][:n]), plain[width:][n:]
	return nil
}
