package lending

import (
	"cmp"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lendingapi/lending-go/internal/redact"
)

// CommandState says how far a command with a key has come. See the package documentation.
type CommandState string

const (
	// CommandFree can be sent: it never left, was refused, or a read has shown that it
	// is not there.
	CommandFree CommandState = "free"
	// CommandSent is on its way, or was when its process died.
	CommandSent CommandState = "sent"
	// CommandUnknown has lost its answer.
	CommandUnknown CommandState = "unknown"
	// CommandUndecided has lost its answer, and no read tells what became of it.
	CommandUndecided CommandState = "undecided"
	// CommandDone has happened, and its answer is kept.
	CommandDone CommandState = "done"
	// CommandForgotten has happened, and its answer is lost or kept no more.
	CommandForgotten CommandState = "forgotten"
)

// JournalEntry is what a [JournalStore] keeps of one command.
type JournalEntry struct {
	Key      string       // the caller's, behind the namespace of the [Journal]
	Revision int64        // how often it was saved; 0 for an entry that was not
	State    CommandState // to list by
	Scope    string       // of which there is one entry at a time, whatever its state; "" is no scope
	Data     []byte       // what only a [Journal] reads: no bodies of requests, but answers, which can hold personal data

	// Age is for how long the entry has been as it is, by the clock of the store, which
	// all who share it have in common. Save does not look at it.
	Age time.Duration
}

// Format prints what may be shown, and of Data how much there is.
func (e JournalEntry) Format(f fmt.State, verb rune) {
	fmt.Fprintf(f, "%s %s, revision %d, %d bytes", e.Key, e.State, e.Revision, len(e.Data))
}

// JournalFilter selects entries for [JournalStore.List].
type JournalFilter struct {
	Prefix string         // of the key
	States []CommandState // any of them
	Older  time.Duration  // their age, at least
	Limit  int            // how many at most; always given
}

// JournalStore keeps the entries of a [Journal], for one process or for many. Its
// contract is held by the suite JournalStore of package lendingtest/storetest.
//
// Methods are called by several goroutines at once and return when their context ends. An
// error other than the ones named here means that it is not known what became of the
// operation. What was saved without an error must survive the end of the process, and
// should survive that of the machine: what is lost is a command that is sent twice.
type JournalStore interface {
	// Load returns the entry of key as it was saved last, nil if it never was.
	Load(ctx context.Context, key string) (*JournalEntry, error)

	// Save keeps entry, with a revision that is one higher, if its revision is that of
	// what is kept: 0 if nothing is. Otherwise it fails with [ErrJournalConflict], and
	// with a [*ScopeHeldError] if another key has its scope. It changes nothing then.
	Save(ctx context.Context, entry JournalEntry) error

	// List returns what filter selects, the oldest first.
	List(ctx context.Context, filter JournalFilter) ([]JournalEntry, error)
}

// What a [JournalStore] fails with, beside [*ScopeHeldError].
var (
	// ErrJournalConflict means that the entry was saved by somebody else.
	ErrJournalConflict error = redact.Text("lending: the journal entry has changed meanwhile")
	// ErrCorruptEntry means that the entry cannot be read. Its command is not sent.
	ErrCorruptEntry error = redact.Text("lending: the journal entry cannot be read")
)

// ScopeHeldError is what [JournalStore.Save] fails with when another entry has the scope.
type ScopeHeldError struct {
	safe

	Key string // of the other entry
}

// Error names the key.
func (e *ScopeHeldError) Error() string { return "lending: the scope belongs to the key " + e.Key }

// NewMemoryJournalStore returns a store for the clients of one process, which forgets all
// when that ends: for tests, and where a command need be done once only while the process
// lives.
func NewMemoryJournalStore() JournalStore {
	m := &journalMemory{entries: map[string]savedEntry{}, scopes: map[string]string{}}
	return memoryJournal{func() *journalMemory { return m }}
}

type memoryJournal struct{ state func() *journalMemory }

type journalMemory struct {
	mu      sync.Mutex
	entries map[string]savedEntry
	scopes  map[string]string // the key that has it
}

type savedEntry struct {
	JournalEntry
	at time.Time
}

func (e savedEntry) loaded() JournalEntry {
	entry := e.JournalEntry
	entry.Data = slices.Clone(entry.Data)
	entry.Age = time.Since(e.at)
	return entry
}

func (s memoryJournal) Load(_ context.Context, key string) (*JournalEntry, error) {
	m := s.state()
	m.mu.Lock()
	defer m.mu.Unlock()
	saved, ok := m.entries[key]
	if !ok {
		return nil, nil //nolint:nilnil // there is none, as the interface says
	}
	entry := saved.loaded()
	return &entry, nil
}

func (s memoryJournal) Save(_ context.Context, entry JournalEntry) error {
	m := s.state()
	m.mu.Lock()
	defer m.mu.Unlock()
	was := m.entries[entry.Key]
	if was.Revision != entry.Revision {
		return ErrJournalConflict
	}
	if holder, held := m.scopes[entry.Scope]; held && holder != entry.Key {
		return &ScopeHeldError{Key: holder}
	}
	delete(m.scopes, was.Scope)
	if entry.Scope != "" {
		m.scopes[entry.Scope] = entry.Key
	}
	entry.Revision++
	entry.Data = slices.Clone(entry.Data)
	m.entries[entry.Key] = savedEntry{entry, time.Now()}
	return nil
}

func (s memoryJournal) List(_ context.Context, filter JournalFilter) ([]JournalEntry, error) {
	m := s.state()
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []JournalEntry
	for _, saved := range m.entries {
		entry := saved.loaded()
		if strings.HasPrefix(entry.Key, filter.Prefix) && slices.Contains(filter.States, entry.State) && entry.Age >= filter.Older {
			found = append(found, entry)
		}
	}
	slices.SortFunc(found, func(a, b JournalEntry) int {
		return cmp.Or(cmp.Compare(b.Age, a.Age), strings.Compare(a.Key, b.Key))
	})
	return found[:min(len(found), filter.Limit)], nil
}

// NewEncryptedJournalStore returns a store that keeps its entries in store, their data
// encrypted with key (AES-256-GCM), which must be 32 random bytes, and their scopes, which
// are hashes of e-mail addresses and ids, keyed with it. The keys of the commands, their
// states and ages stay readable.
//
// What was written with another key, or for another entry, is an [ErrCorruptEntry]: its
// command is not sent.
func NewEncryptedJournalStore(store JournalStore, key []byte) (JournalStore, error) {
	if len(key) != 32 {
		return nil, argumentError("key", CodeLength, "must be 32 bytes")
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	scopes := hmac.New(sha256.New, key)
	scopes.Write([]byte("lending journal scope"))
	secret := scopes.Sum(nil)
	return encryptedJournal{func() (JournalStore, cipher.AEAD) { return store, aead }, func() []byte { return secret }}, nil
}

// encryptedJournal holds what is the caller's, and its keys, behind functions.
type encryptedJournal struct {
	sealed func() (JournalStore, cipher.AEAD)
	secret func() []byte // for scopes
}

// boundTo is what the data of an entry is bound to, so that the data of another, or of an
// earlier state of the same, cannot be passed off as it.
func boundTo(key string, revision int64, state CommandState) []byte {
	return fmt.Appendf(nil, "%s\n%d\n%s", key, revision, state)
}

// Save seals the scope with the data, to return it as it was saved.
func (e encryptedJournal) Save(ctx context.Context, entry JournalEntry) error {
	store, aead := e.sealed()
	plain := append(binary.AppendUvarint(nil, uint64(len(entry.Scope))), entry.Scope...)
	entry.Data = aead.Seal(nil, nil, append(plain, entry.Data...), boundTo(entry.Key, entry.Revision+1, entry.State)) //nolint:gosec // it makes its nonce
	if entry.Scope != "" {
		keyed := hmac.New(sha256.New, e.secret())
		keyed.Write([]byte(entry.Scope))
		entry.Scope = hex.EncodeToString(keyed.Sum(nil))
	}
	return store.Save(ctx, entry)
}

func (e encryptedJournal) Load(ctx context.Context, key string) (*JournalEntry, error) {
	store, _ := e.sealed()
	entry, err := store.Load(ctx, key)
	if err != nil || entry == nil {
		return nil, err
	}
	err = e.open(entry)
	return entry, err
}

func (e encryptedJournal) List(ctx context.Context, filter JournalFilter) ([]JournalEntry, error) {
	store, _ := e.sealed()
	entries, err := store.List(ctx, filter)
	for i := range entries {
		err = errors.Join(err, e.open(&entries[i]))
	}
	return entries, err
}

func (e encryptedJournal) open(entry *JournalEntry) error {
	_, aead := e.sealed()
	plain, err := aead.Open(nil, nil, entry.Data, boundTo(entry.Key, entry.Revision, entry.State))
	n, width := binary.Uvarint(plain)
	if err != nil || width <= 0 || n > uint64(len(plain)-width) { //nolint:gosec // width is at most the length
		return ErrCorruptEntry
	}
	entry.Scope, entry.Data = string(plain[width:][:n]), plain[width:][n:]
	return nil
}
