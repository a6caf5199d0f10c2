// Package store is the contract of the stores of package idempotency, with a store in memory
// and one that encrypts. It imports no client, and neither does a store that is built on it.
package store

import (
	"context"
	"fmt"
	"time"

	"github.com/lendingapi/lending-go/internal/redact"
)

// State says how far a mutation has come: see the documentation of package idempotency.
type State string

const (
	// Free can be sent: the mutation was never sent, was rejected, or a check showed that
	// it did not happen.
	Free State = "free"
	// Sent is in flight, or was when its process died.
	Sent State = "sent"
	// InDoubt has lost its answer. A check or time tells whether it happened.
	InDoubt State = "in_doubt"
	// NeedsReview has lost its answer, and no check tells whether it happened.
	NeedsReview State = "needs_review"
	// Done has happened, and the store has its answer.
	Done State = "done"
	// Forgotten has happened. Its answer is lost, or no longer kept.
	Forgotten State = "forgotten"
)

// Entry is what a [Store] keeps of one mutation.
type Entry struct {
	Key      string // of the caller, behind the namespace of the log
	Revision int64  // the number of times that it was saved; 0 for a new entry
	State    State  // to list by
	Lock     string // one entry has it at a time, in whatever state; "" is no lock
	Data     []byte // for the log only: no request bodies, but answers, which can hold personal data

	// Age is the time since the entry was saved, by the clock of the store, which all
	// processes that share the store have in common. Position is the place of the entry in the
	// order of [Store.List], which sets it. Save ignores both.
	Age      time.Duration
	Position Position
}

// Format prints key, state and revision, and the size of Data.
func (e Entry) Format(f fmt.State, verb rune) {
	fmt.Fprintf(f, "%s %s, revision %d, %d bytes", e.Key, e.State, e.Revision, len(e.Data))
}

// Filter selects entries for [Store.List].
type Filter struct {
	Prefix string        // of the key
	States []State       // any of them
	Older  time.Duration // the lowest age
	After  Position      // of the last entry of the page before; "" for the first page
	Limit  int           // the largest number of entries; always given
}

// PageBytes is how many bytes of data a page of [Store.List] holds at most, unless its first
// entry alone is larger.
const PageBytes = 4 << 20

// Store keeps the entries of a log, for one process or for many. The suite
// IdempotencyStore of package lendingtest/storetest holds a store to this contract.
//
// Methods are called by several goroutines at once and return when their context ends. After
// an error that is not named here nobody knows whether the operation had its effect. What was
// saved without an error must survive the end of the process, and should survive that of the
// machine: the mutation of a lost entry is sent twice.
type Store interface {
	// Load returns the entry of key as it was saved last, nil if it never was.
	Load(ctx context.Context, key string) (*Entry, error)

	// Save keeps entry with the next revision, if the store has its revision: 0 if the
	// store has no entry of the key. Otherwise it fails with [ErrConflict], and with a
	// [*LockedError] if another key has its lock. A failed Save changes nothing.
	Save(ctx context.Context, entry Entry) error

	// Replace keeps each of entries with the next revision, or deletes it if its state is "",
	// and returns how many it has replaced. It leaves those out that the store does not have
	// with their revision, and takes no locks: Lock is the lock that the entry has, or "" to
	// give it up. After an error some can be replaced.
	Replace(ctx context.Context, entries []Entry) (int, error)

	// List returns a page of the entries that filter selects, the oldest first. A page can be
	// shorter than the limit, as its data have no more than [PageBytes], but it is empty only
	// if no more entries are selected: [All] goes on until then.
	//
	// Pages that follow each other return every entry once that is not saved meanwhile. An
	// entry that is saved meanwhile moves to the end: it can be returned twice, as it was and
	// as it is, but is not missed. New entries can be missing. An entry that cannot be read
	// has no Data. A position that no entry has is an [ErrPosition].
	//
	// The cost of a page depends on the number of entries that it returns, as long as the
	// prefix selects few entries or most of them.
	List(ctx context.Context, filter Filter) ([]Entry, error)
}

// The errors of a [Store], with [*LockedError].
var (
	// ErrConflict means that somebody else has saved the entry.
	ErrConflict error = redact.Text("lending/idempotency: the entry has changed meanwhile")
	// ErrCorrupt means that the entry cannot be read. Its mutation is not sent.
	ErrCorrupt error = redact.Text("lending/idempotency: the entry cannot be read")
	// ErrPosition means that a list cannot go on after a position.
	ErrPosition error = redact.Text("lending/idempotency: no entry has the position; list from the beginning")
)

type safe = redact.Safe

// LockedError is the error of [Store.Save] if another entry has the lock.
type LockedError struct {
	Key string // of the other entry

	safe
}

// Error names the key.
func (e *LockedError) Error() string {
	return "lending/idempotency: the lock belongs to the key " + e.Key
}
