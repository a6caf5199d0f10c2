package lending

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/lendingapi/lending-go/internal/filelock"
	"github.com/lendingapi/lending-go/internal/format"
	"github.com/lendingapi/lending-go/internal/opaque"
	"github.com/lendingapi/lending-go/internal/sealed"
)

// TokenStore keeps the token of one account of one service, for one [Session] or for the
// sessions of many processes: see [WithTokenStore].
//
// The store also grants the lease under which one session at a time signs in or refreshes. A
// lease ends by itself, so a process that died or stopped does not block the others. Each new
// lease has a higher number, its fence. The store rejects a token that is saved under an older
// fence than the stored token.
//
// Several goroutines call the methods at once, with contexts of a few seconds or less. A method
// returns when its context ends. A session does not wait for a method that continues, but
// [Client.Close] does. Any error other than the errors named here, and any panic, means that the
// store cannot be used for now.
//
// Package lendingtest/storetest tests your own store against this contract.
type TokenStore interface {
	// Load returns the token that was saved last, or the zero StoredToken. It fails with
	// [ErrCorruptToken] if the token cannot be read and may be overwritten.
	Load(ctx context.Context) (StoredToken, error)

	// Save keeps token. It fails with [ErrFenced] if the stored token has a higher fence.
	Save(ctx context.Context, token StoredToken) error

	// Acquire grants owner the lease for ttl and returns its fence, which is higher than all
	// fences before. If owner holds the lease, Acquire extends it to ttl from now and returns
	// the same fence. Acquire fails with [ErrLeaseHeld] if another owner holds the lease. A
	// lease never lasts longer than its ttl, even if the clock is set back.
	Acquire(ctx context.Context, owner string, ttl time.Duration) (fence int64, err error)

	// Release ends the lease if owner holds it.
	Release(ctx context.Context, owner string) error
}

// StoredToken is the content of a [TokenStore].
type StoredToken struct {
	Fence   int64     // of the lease under which the token was saved
	Data    Secret    // a text that only sessions read: the token and its account
	Expires time.Time // when Data becomes useless, zero if unknown; a store need not keep it
}

// tokenState is all that a store in memory or in a file holds.
type tokenState struct {
	Version format.Version `json:"v,omitempty"` // of the file; 1 without a version

	Fence int64     `json:"fence"` // of the token
	Data  *string   `json:"data"`  // a pointer, because fmt prints the string of an unexported field
	Owner string    `json:"owner"` // of the lease
	Lease int64     `json:"lease"` // fence of the last lease
	Until time.Time `json:"until"` // end of the lease

	TTL time.Duration `json:"ttl"` // of the lease, which ends no later from now, whatever the clock said
}

func (s *tokenState) save(token StoredToken) error {
	if token.Fence < s.Fence {
		return ErrFenced
	}
	s.Fence, s.Data = token.Fence, token.Data.text
	return nil
}

// acquire takes fences from the clock, so that they rise also when all else is lost.
func (s *tokenState) acquire(owner string, ttl time.Duration) error {
	now := time.Now()
	if most := now.Add(s.TTL); s.Until.After(most) { // the clock was ahead when it was written
		s.Until = most
	}
	if s.Owner != owner && s.Owner != "" && now.Before(s.Until) {
		return ErrLeaseHeld
	}
	if s.Owner != owner {
		s.Owner, s.Lease = owner, max(s.Lease+1, s.Fence+1, now.UnixMicro())
	}
	s.Until, s.TTL = now.Add(ttl), ttl
	return nil
}

func (s *tokenState) release(owner string) {
	if s.Owner == owner {
		s.Owner = ""
	}
}

// stateStore is a store whose state is read and changed as a whole.
type stateStore struct {
	state opaque.Value[stateKeeper]
}

type stateKeeper interface {
	read() (tokenState, format.Unknown, error)
	update(ctx context.Context, change func(*tokenState) error) error
}

func (s stateStore) Load(ctx context.Context) (StoredToken, error) {
	state, _, err := s.state().read()
	return StoredToken{Fence: state.Fence, Data: Secret{state.Data}}, err
}

func (s stateStore) Save(ctx context.Context, token StoredToken) error {
	return s.state().update(ctx, func(state *tokenState) error { return state.save(token) })
}

func (s stateStore) Acquire(ctx context.Context, owner string, ttl time.Duration) (fence int64, err error) {
	err = s.state().update(ctx, func(state *tokenState) error {
		err := state.acquire(owner, ttl)
		fence = state.Lease
		return err
	})
	return fence, err
}

func (s stateStore) Release(ctx context.Context, owner string) error {
	return s.state().update(ctx, func(state *tokenState) error { state.release(owner); return nil })
}

// NewMemoryTokenStore returns a store for the sessions of one process. Without [WithTokenStore]
// each [Session] has its own memory store.
func NewMemoryTokenStore() TokenStore {
	return stateStore{opaque.Hide[stateKeeper](&memoryState{})}
}

// memoryState is a state that only this process has.
type memoryState struct {
	mu    sync.Mutex
	state tokenState
}

func (m *memoryState) read() (tokenState, format.Unknown, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state, format.Unknown{}, nil
}

func (m *memoryState) update(_ context.Context, change func(*tokenState) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return change(&m.state)
}

// NewFileTokenStore returns a store in the file path, for one account of one service. The folder
// must exist. Only the owner of the file may read it. Each change replaces the whole file, so a
// crash leaves the old file or the new one. The store also creates path.lock and, for a moment,
// path.tmp.
//
// Processes of one machine may share the file, on systems with flock. The token is stored in the
// clear: use [NewEncryptedTokenStore] to encrypt it.
func NewFileTokenStore(path string) (TokenStore, error) {
	if folder, err := os.Stat(filepath.Dir(path)); path == "" || err != nil || !folder.IsDir() {
		return nil, argumentError("path", CodeFormat, "must be a file in a folder that exists")
	}
	return stateStore{opaque.Hide[stateKeeper](&fileState{path, make(chan struct{}, 1)})}, nil
}

// fileState is a state that lies in a file.
type fileState struct {
	path string
	turn chan struct{} // a lock that can be waited for until a context ends
}

func (f *fileState) read() (state tokenState, unknown format.Unknown, err error) {
	text, err := os.ReadFile(f.path)
	if errors.Is(err, os.ErrNotExist) {
		return state, unknown, nil
	} else if err != nil {
		return state, unknown, err
	}
	unknown, err = format.Decode(text, &state)
	if newer := state.Version.Check(1, "the file of the token"); newer != nil {
		return tokenState{}, unknown, newer
	}
	if err != nil {
		return tokenState{}, format.Unknown{}, ErrCorruptToken
	}
	return state, unknown, nil
}

// update changes the file while no other process does, also if the change ends with an error. An
// unreadable file is replaced.
func (f *fileState) update(ctx context.Context, change func(*tokenState) error) error {
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	lock, err := os.OpenFile(f.path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close() // unlocks
	if err := filelock.Lock(ctx, lock); err != nil {
		return err
	}
	state, unknown, err := f.read()
	if err != nil && !errors.Is(err, ErrCorruptToken) {
		return err
	}
	before := state
	refused := change(&state)
	if state == before {
		return refused
	}
	return cmp.Or(f.replace(state, unknown), refused)
}

// replace writes a new file and puts it in the place of the old one.
func (f *fileState) replace(state tokenState, unknown format.Unknown) error {
	text, err := unknown.Encode(&state)
	if err != nil {
		return err
	}
	_ = os.Remove(f.path + ".tmp") // of a crash; its mode could be another
	tmp, err := os.OpenFile(f.path+".tmp", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = tmp.Write(text)
	if err := errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.path+".tmp", f.path); err != nil {
		return err
	}
	return syncDirectory(filepath.Dir(f.path))
}

// syncDirectory makes a rename durable, where the system can.
func syncDirectory(path string) error {
	directory, err := os.Open(path) //nolint:gosec // the caller's own directory
	if err != nil {
		return err
	}
	_ = directory.Sync()
	return directory.Close()
}

// NewEncryptedTokenStore returns a store that encrypts its tokens with AES-256-GCM and keeps
// them in store. The key must be 32 random bytes. To change the key, put the new one in front:
// the store also reads a token that was encrypted with an older key. A token of an unknown key
// counts as [ErrCorruptToken] and is overwritten, even the token of another account.
func NewEncryptedTokenStore(store TokenStore, key []byte, older ...[]byte) (TokenStore, error) {
	if store == nil {
		return nil, argumentError("store", CodeRequired, "must not be nil")
	}
	box, err := sealed.New(key, older...)
	if err != nil {
		return nil, argumentError("key", CodeLength, "must be 32 bytes")
	}
	return encryptedStore{opaque.Hide(store), box}, nil
}

type encryptedStore struct {
	store opaque.Value[TokenStore]
	box   sealed.Box
}

func (e encryptedStore) Acquire(ctx context.Context, owner string, ttl time.Duration) (fence int64, err error) {
	return e.store().Acquire(ctx, owner, ttl)
}

func (e encryptedStore) Release(ctx context.Context, owner string) error {
	return e.store().Release(ctx, owner)
}

// Save binds the text to its fence: an old token cannot be passed off as a new one.
func (e encryptedStore) Save(ctx context.Context, token StoredToken) error {
	text := e.box.Seal([]byte(token.Data.Reveal()), fenceBytes(token.Fence))
	token.Data = NewSecret(base64.StdEncoding.EncodeToString(text))
	return e.store().Save(ctx, token)
}

func (e encryptedStore) Load(ctx context.Context) (StoredToken, error) {
	token, err := e.store().Load(ctx)
	if err != nil || token.Data.IsZero() {
		return token, err
	}
	text, err := base64.StdEncoding.DecodeString(token.Data.Reveal())
	if err != nil {
		return StoredToken{}, ErrCorruptToken
	}
	plain, err := e.box.Open(text, fenceBytes(token.Fence))
	if _, newer := errors.AsType[*format.NewerError](err); newer {
		return StoredToken{}, err
	} else if err != nil {
		return StoredToken{}, ErrCorruptToken
	}
	token.Data = NewSecret(string(plain))
	return token, nil
}

func fenceBytes(fence int64) []byte { return strconv.AppendInt(nil, fence, 10) }
