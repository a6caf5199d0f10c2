// Package store has the interface of the stores of package idempotency, a store in memory and an
// encrypted store. The package does not import the client, so a store module needs no client.
package store

import (
	"context"
	"fmt"
	"time"

	"github.com/lendingapi/lending-go/internal/redact"
)

// State is the progress of a mutation: see the documentation of package idempotency.
type State string

const (
	// Free means: the mutation was never sent, was rejected, or did not happen.
	Free State = "free"
	// Sent means: the mutation is in flight, or was in flight when its process died.
	Sent State = "sent"
	// InDoubt means: the response is lost. A check can tell whether the mutation happened.
	InDoubt State = "in_doubt"
	// NeedsReview means: the response is lost, and no check can tell.
	NeedsReview State = "needs_review"
	// Done means: the mutation happened, and the entry has the response.
	Done State = "done"
	// Forgotten means: the mutation happened, and the response is lost or removed.
	Forgotten State = "forgotten"
)

// Entry is the record of a mutation in a [Store].
type Entry struct {
	Key      string // the namespace of the log and the idempotency key
	Revision int64  // the number of saves; 0 for a new entry
	State    State
	Lock     string // at most one entry has a lock, in any state; "" for no lock
	Data     []byte // opaque to the store; contains responses, which can hold personal data

	// Age is the time since the last save, by the clock of the store. Load and List set Age.
	// Position is the place of the entry in the order of [Store.List], which sets Position. Save
	// ignores both.
	Age      time.Duration
	Position Position
}

// Format prints the key, the state, the revision and the size of Data.
func (e Entry) Format(f fmt.State, verb rune) {
	fmt.Fprintf(f, "%s %s, revision %d, %d bytes", e.Key, e.State, e.Revision, len(e.Data))
}

// Filter selects entries for [Store.List].
type Filter struct {
	Prefix string        // the prefix of the keys
	States []State       // the states; never empty
	Older  time.Duration // the minimum age
	After  Position      // the position of the last entry of the previous page; "" for the first page
	Limit  int           // the maximum number of entries; never 0
}

// PageBytes is the maximum size of the data of a page of [Store.List] in bytes. Only a page of a
// single entry can be larger.
const PageBytes = 4 << 20

// Store keeps the entries of a log, for one or many processes. The suite IdempotencyStore of
// package lendingtest/storetest tests a store against this contract.
//
// The log calls the methods from several goroutines, and expects them to return when their
// context ends. After any other error than the named ones, the operation may have had its
// effect. A saved entry must survive the end of the process, and should survive the loss of the
// machine: if an entry is lost, the mutation is sent twice.
type Store interface {
	// Load returns the last saved entry of key, or nil if the store has none.
	Load(ctx context.Context, key string) (*Entry, error)

	// Save stores entry with the next revision if the revision of the stored entry is equal. The
	// revision of a missing entry is 0. Save fails with [ErrConflict] if the revisions differ,
	// and with a [*LockedError] if another key has the lock. A Save with one of these errors
	// changes nothing.
	Save(ctx context.Context, entry Entry) error

	// Replace stores each entry with the next revision, or deletes the entry if its state is "".
	// It returns the number of replaced entries. Replace skips entries whose stored revision
	// differs. It takes no locks: Lock is the current lock of the entry, or "" to give up the
	// lock. After an error some entries can be replaced.
	Replace(ctx context.Context, entries []Entry) (int, error)

	// List returns a page of the entries that filter selects, the oldest save first. A page can
	// be shorter than the limit, because its data is at most [PageBytes]. Only an empty page is
	// the end: see [All].
	//
	// Successive pages contain each entry once. An entry that is saved between two pages moves
	// to the end: it can appear twice but is never missed. New entries may be missing. An
	// unreadable entry has no Data. A malformed position is an [ErrPosition].
	//
	// The cost of a page depends on the number of returned entries, if the prefix selects few
	// entries or most entries.
	List(ctx context.Context, filter Filter) ([]Entry, error)
}

// The errors of a [Store], with [*LockedError].
var (
	// ErrConflict means: another call has saved the entry.
	ErrConflict error = redact.Text("lending/idempotency: another call has saved the entry; load the entry again")
	// ErrCorrupt means: the entry cannot be read. The mutation is not sent.
	ErrCorrupt error = redact.Text("lending/idempotency: the entry cannot be read; check the encryption keys and the version of the library")
	// ErrPosition means: a list cannot go on after a position.
	ErrPosition error = redact.Text("lending/idempotency: the position of the list is not valid; list from the beginning")
)

type safe = redact.Safe

// LockedError is the error of [Store.Save] if another entry has the lock.
type LockedError struct {
	Key string // the key of the other entry

	safe
}

// Error names the key.
func (e *LockedError) Error() string {
	return "lending/idempotency: another mutation has the lock: key " + e.Key + "; call with that key first"
}
