package webhook

import (
	"context"
	"time"
)

// Inbox stores accepted events until they are handled: see the package documentation.
//
// contrib/bolt stores them in a file of one process, contrib/redis and contrib/postgres for
// several processes, and [NewMemoryInbox] in memory, for tests. To write an inbox of your own,
// run the tests of package lendingtest/storetest on it.
//
// Done, Retry and DeadLetter may be called twice for an entry, or after its claim has ended. Done
// removes the event in each case. Retry and DeadLetter change nothing if the event is gone or
// another worker has claimed it.
type Inbox interface {
	// Put is an [EventFunc]. An event for which Put has returned nil survives the end of the
	// process. Put returns [ErrDuplicate] if the inbox has seen the event's key.
	Put(ctx context.Context, event *Event) error
	// Take waits until an event is due and claims it. If ctx ends first, Take fails.
	Take(ctx context.Context) (*InboxEntry, error)
	// Done removes an event that was handled.
	Done(ctx context.Context, entry *InboxEntry) error
	// Retry ends the claim. The event is due again after wait.
	Retry(ctx context.Context, entry *InboxEntry, wait time.Duration) error
	// DeadLetter ends the claim and sets the event aside, for a person to look at: see
	// [DeadLetters]. The inbox keeps the text of cause that [Cause] returns.
	DeadLetter(ctx context.Context, entry *InboxEntry, cause error) error
	// Counts returns the number of events in the inbox.
	Counts(ctx context.Context) (InboxCounts, error)
	// Ages returns how late the inbox is. It reads few events.
	Ages(ctx context.Context) (InboxAges, error)
	// Ready reports whether the inbox can work, with one short read, for a readiness probe. The
	// error tells the reason and the next step.
	Ready(ctx context.Context) error
}

// InboxEntry is an event in an [Inbox].
type InboxEntry struct {
	Event   *Event
	Tries   int       // tries that ended with an error, and this try
	Crashes int       // how often the process ended while this was the only event being handled: see [Work]
	Until   time.Time // when the claim ends and another worker may take the event; zero if claims do not end
	ID      string    // the inbox's own identifier
}

// InboxCounts is the number of events in an [Inbox].
type InboxCounts struct {
	Waiting     int // due, or waiting for another try
	Running     int // claimed
	DeadLetters int // set aside
}

// InboxAges is how late an [Inbox] is, by the clock of its store.
type InboxAges struct {
	Due        time.Duration // how long the first event that is due has waited for a worker; 0 if no event is due
	DeadLetter time.Duration // how long ago the oldest dead letter was set aside; 0 without dead letters
}
