package store

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/lendingapi/lending-go/internal/opaque"
	"github.com/lendingapi/lending-go/internal/redact"
	"github.com/lendingapi/lending-go/internal/sealed"
)

// NewEncrypted returns a store that keeps its entries in inner. It encrypts their data with
// key (AES-256-GCM), which must be 32 random bytes, and hashes their locks, which stand for
// e-mail addresses and ids, with it. The keys of the mutations, their states and their ages
// stay readable.
//
// An entry that was written with an unknown key, or for another mutation, is an [ErrCorrupt]:
// its mutation is not sent.
//
// To change the key, put the new one in front: the store also reads what was written with an
// older key. The last key hashes the locks, so it must stay the last: two processes with
// different last keys do not see each other's locks. Until all processes have the new key, those
// without it send nothing that the others have begun. If that is too long, first deploy the keys
// old, new, old.
func NewEncrypted(inner Store, key []byte, older ...[]byte) (Store, error) {
	if inner == nil {
		return nil, redact.Text("lending/idempotency: the store to encrypt must not be nil")
	}
	box, err := sealed.New(key, older...)
	if err != nil {
		return nil, redact.Text("lending/idempotency: " + err.Error())
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
	locks opaque.Value[[]byte] // the key of their hashes
}

// boundTo binds the data of an entry to its key, revision and state: the data of another
// entry, or of an earlier revision, does not open.
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

// sealed seals the lock with the data, so that Load returns it as it was saved.
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

// List returns an entry that does not open without its data, as a store does with one that it
// cannot read.
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
	n, width := binary.Uvarint(plain)
	if err != nil || width <= 0 || n > uint64(len(plain)-width) { //nolint:gosec // width is at most the length
		return ErrCorrupt
	}
	entry.Lock, entry.Data = string(plain[width:][:n]), plain[width:][n:]
	return nil
}
