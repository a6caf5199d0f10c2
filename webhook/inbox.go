package webhook

import (
	"context"
	"time"
)

// Inbox stores accepted events until a worker has handled them: see the package documentation.
//
// contrib/bolt stores events in a file of a single process, contrib/postgres for several processes,
// and [NewMemoryInbox] in memory, for tests. The suite of package lendingtest/storetest tests an
// inbox of your own.
//
// Done, Retry and DeadLetter may be called twice for an entry, or after its claim has expired.
// Done removes the event in each case. Retry and DeadLetter change nothing if the event is gone
// or another worker has claimed it.
type Inbox interface {
	// Put is an [EventFunc]. After Put has returned nil, the event survives the end of the
	// process. Put returns [ErrDuplicate] if the inbox has seen the event's key.
	Put(ctx context.Context, event *Event) error
	// Take waits until an event is due and claims it. If ctx ends first, Take fails.
	Take(ctx context.Context) (*InboxEntry, error)
	// Done removes a handled event.
	Done(ctx context.Context, entry *InboxEntry) error
	// Retry ends the claim. The event is due again after wait.
	Retry(ctx context.Context, entry *InboxEntry, wait time.Duration) error
	// DeadLetter ends the claim and sets the event aside for a person: see [DeadLetters]. The
	// inbox keeps the text of cause from [Cause].
	DeadLetter(ctx context.Context, entry *InboxEntry, cause error) error
	// Counts returns the number of events in the inbox.
	Counts(ctx context.Context) (InboxCounts, error)
	// Ages returns how late the inbox is, and reads few events.
	Ages(ctx context.Context) (InboxAges, error)
	// Ready reports whether the inbox can work, with a short read, for a readiness probe. The
	// error has the reason and the next step.
	Ready(ctx context.Context) error
}

// InboxEntry is an event in an [Inbox].
type InboxEntry struct {
	Event *Event
	Tries int       // number of claims, with this claim: a try that the end of its process cut short counts too
	Until time.Time // when the claim ends and another worker may take the event; zero if claims do not end
	ID    string    // the inbox's own identifier
}

// InboxCounts is the number of events in an [Inbox].
type InboxCounts struct {
	Waiting     int `json:"waiting"`     // due, or waiting for another try
	Running     int `json:"running"`     // claimed
	DeadLetters int `json:"deadLetters"` // set aside
}

// InboxAges is how late an [Inbox] is, by the clock of its store.
type InboxAges struct {
	Due        time.Duration // wait of the first due event for a worker; 0 if no event is due
	DeadLetter time.Duration // age of the oldest dead letter; 0 without dead letters
}
