package lending

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lendingapi/lending-go/internal/filelock"
	"github.com/lendingapi/lending-go/internal/opaque"
	"github.com/lendingapi/lending-go/internal/redact"
	"github.com/lendingapi/lending-go/internal/safely"
	"github.com/lendingapi/lending-go/internal/sealed"
	"github.com/lendingapi/lending-go/internal/signin"
)

// TokenStore keeps the token of one account of one service, for one [Session] or for
// the sessions of many processes: see [WithTokenStore].
//
// It also gives out the lease under which one of them at a time signs in or
// refreshes. A lease ends by itself, so that a process that died or stopped does not
// hold up the others; what such a process saves when it wakes up is refused by its
// fence, a number that is higher with every lease.
//
// Methods are called by several goroutines at once, with a context that ends after a
// few seconds, or sooner where a token has little time left: they return when it does. A
// session does not wait for one that goes on, but [Client.Close] does. An error other
// than the ones named here, or a panic, means that the store cannot be used for now.
//
// Package lendingtest/storetest holds a store of your own to this.
type TokenStore interface {
	// Load returns what was saved last, the zero StoredToken if nothing was. It
	// fails with [ErrCorruptToken] if it cannot be read and may be overwritten.
	Load(ctx context.Context) (StoredToken, error)

	// Save keeps token. It fails with [ErrFenced] if what is kept has a higher fence.
	Save(ctx context.Context, token StoredToken) error

	// Acquire gives owner the lease for ttl and returns its fence, higher than that of
	// every lease before. An owner who has the lease gets it for ttl from now, with
	// the fence it has. It fails with [ErrLeaseHeld] if another owner has the lease,
	// which holds nobody up for longer than its ttl, also if the clock is set back.
	Acquire(ctx context.Context, owner string, ttl time.Duration) (fence int64, err error)

	// Release ends the lease if owner has it.
	Release(ctx context.Context, owner string) error
}

// StoredToken is what a [TokenStore] keeps.
type StoredToken struct {
	Fence   int64     // of the lease that it was made under
	Data    Secret    // a text that only sessions read: the token, and whose it is
	Expires time.Time // when Data is of no use any more, zero if that is not known; need not be kept
}

// What a [TokenStore] fails with.
var (
	// ErrLeaseHeld means that another owner has the lease.
	ErrLeaseHeld error = redact.Text("lending: another owner has the lease")
	// ErrFenced means that a newer token is kept already.
	ErrFenced error = redact.Text("lending: a newer token is kept already")
	// ErrCorruptToken means that what is kept cannot be read.
	ErrCorruptToken error = redact.Text("lending: the stored token cannot be read")
)

// tokenState is all that a store in memory or in a file holds.
type tokenState struct {
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
	read() (tokenState, error)
	update(ctx context.Context, change func(*tokenState) error) error
}

func (s stateStore) Load(ctx context.Context) (StoredToken, error) {
	state, err := s.state().read()
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

// NewMemoryTokenStore returns a store for the sessions of one process. A [Session]
// has one of its own unless told otherwise.
func NewMemoryTokenStore() TokenStore {
	return stateStore{opaque.Hide[stateKeeper](&memoryState{})}
}

// memoryState is a state that only this process has.
type memoryState struct {
	mu    sync.Mutex
	state tokenState
}

func (m *memoryState) read() (tokenState, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state, nil
}

func (m *memoryState) update(_ context.Context, change func(*tokenState) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return change(&m.state)
}

// NewFileTokenStore returns a store in the file path, which only its owner may read, for
// one account of one service. Its folder must exist.
// The file is replaced as a whole, so that a crash leaves the old one or the new one.
// Beside it lie path.lock and at times path.tmp.
//
// Processes of one machine may share it, on systems with flock. The token lies in it
// in the clear: see [NewEncryptedTokenStore].
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

func (f *fileState) read() (tokenState, error) {
	var state tokenState
	text, err := os.ReadFile(f.path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return state, nil
	case err != nil:
		return state, err
	case json.Unmarshal(text, &state) != nil:
		return tokenState{}, ErrCorruptToken
	}
	return state, nil
}

// update changes the file while no other process does, also if the change ends with an
// error. An unreadable file is replaced.
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
	state, err := f.read()
	if err != nil && !errors.Is(err, ErrCorruptToken) {
		return err
	}
	before := state
	refused := change(&state)
	if state == before {
		return refused
	}
	return cmp.Or(f.replace(state), refused)
}

// replace writes a new file and puts it in the place of the old one.
func (f *fileState) replace(state tokenState) error {
	text, err := json.Marshal(state)
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

// NewEncryptedTokenStore returns a store that keeps its tokens in store, encrypted with
// key (AES-256-GCM), which must be 32 random bytes. What was written with another key
// counts as [ErrCorruptToken] and is overwritten, whosever it is.
func NewEncryptedTokenStore(store TokenStore, key []byte) (TokenStore, error) {
	box, err := sealed.New(key)
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
	if err != nil {
		return StoredToken{}, ErrCorruptToken
	}
	token.Data = NewSecret(string(plain))
	return token, nil
}

func fenceBytes(fence int64) []byte { return strconv.AppendInt(nil, fence, 10) }

// engineStore is a [TokenStore] as the engine of a session sees it. It contains panics.
type engineStore struct{ store opaque.Value[TokenStore] }

// engineStoreOf returns a store for the engine. A store of the tests may tune the engine.
func engineStoreOf(store TokenStore) signin.Store {
	adapted := engineStore{opaque.Hide(store)}
	if tuner, ok := store.(signin.Tuner); ok {
		return struct {
			engineStore
			signin.Tuner
		}{adapted, tuner}
	}
	return adapted
}

func (s engineStore) Load(ctx context.Context) (stored signin.Stored, err error) {
	err = storeStep(func() error {
		token, err := s.store().Load(ctx)
		stored = signin.Stored{Fence: token.Fence, Data: token.Data.Reveal(), Expires: token.Expires}
		return err
	})
	return stored, err
}

func (s engineStore) Save(ctx context.Context, stored signin.Stored) error {
	return storeStep(func() error {
		return s.store().Save(ctx, StoredToken{stored.Fence, NewSecret(stored.Data), stored.Expires})
	})
}

func (s engineStore) Acquire(ctx context.Context, owner string, ttl time.Duration) (fence int64, err error) {
	err = storeStep(func() (err error) {
		fence, err = s.store().Acquire(ctx, owner, ttl)
		return err
	})
	return fence, err
}

func (s engineStore) Release(ctx context.Context, owner string) error {
	return storeStep(func() error { return s.store().Release(ctx, owner) })
}

// storeStep takes a step of a store, and returns its answer in the engine's words.
func storeStep(step func() error) error {
	err := safely.Call[PanicError](step)
	switch text := interruption(err); {
	case text != "":
		return hidden(text, err)
	case errors.Is(err, ErrLeaseHeld):
		return signin.ErrLeaseHeld
	case errors.Is(err, ErrFenced):
		return signin.ErrFenced
	case errors.Is(err, ErrCorruptToken):
		return signin.ErrCorrupt
	}
	return err
}

// isHeaderSafe reports whether s can follow "Bearer " in a header.
func isHeaderSafe(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

// Token is what authenticates calls: a bearer token.
type Token struct {
	Value   Secret
	Expires time.Time // zero if it is not known
}

// TokenSource gives the token for a call. It is asked before every call, by many
// goroutines at once.
//
// A source that also has a method Invalidate(Token) is told of a token that the
// service has refused, and is asked again for a read.
type TokenSource interface {
	// Token returns the token for one call.
	Token(ctx context.Context) (Token, error)
}

// StaticToken returns a source that always gives the same token.
func StaticToken(token string) TokenSource { return staticToken{NewSecret(token)} }

type staticToken struct{ value Secret }

func (t staticToken) Token(context.Context) (Token, error) { return Token{Value: t.value}, nil }
