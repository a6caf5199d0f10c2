package webhook

import (
	"context"
	"time"
)

// Inbox keeps events that were accepted until they have been acted on. With it the
// service is answered as soon as the event is safe, whatever the action takes:
//
//	receiver, err := webhook.NewReceiver(webhook.SignedWith(secret), inbox.Put, nil)
//	…
//	http.Handle("/webhooks", receiver)
//	go webhook.Work(ctx, inbox, handle, nil)
//
// contrib/bolt keeps it in a file, which one process has open; contrib/redis in Redis and
// contrib/postgres in PostgreSQL, for a fleet. [NewMemoryInbox] is for tests. Package
// lendingtest/storetest holds one of your own to this.
//
// Whoever has an entry may tell its end twice, as after a lost answer, and after the claim has
// ended. That is no error: Done holds, and Retry and DeadLetter leave alone what is gone or another's.
type Inbox interface {
	// Put is an [EventFunc]. When it has returned nil the event survives the end of the
	// process. It returns [ErrDuplicate] for an event whose key it has seen.
	Put(ctx context.Context, event *Event) error
	// Take waits until an event is due, and claims it, or until ctx ends, and fails.
	Take(ctx context.Context) (*InboxEntry, error)
	// Done removes an event that was acted on.
	Done(ctx context.Context, entry *InboxEntry) error
	// Retry lets an event wait before it is due again.
	Retry(ctx context.Context, entry *InboxEntry, wait time.Duration) error
	// DeadLetter sets an event aside for good, for a person to look at.
	DeadLetter(ctx context.Context, entry *InboxEntry) error
	// Counts returns how many events are in the inbox.
	Counts(ctx context.Context) (InboxCounts, error)
}

// InboxEntry is an event in an [Inbox].
type InboxEntry struct {
	Event   *Event
	Tries   int       // that have ended, with an error each, and this one
	Crashes int       // how often the end of the process cut a try short in which it was acted on alone, see [Work]
	Until   time.Time // when the claim ends, and another may take it; zero if it does not end
	ID      string    // what the inbox knows it by
}

// InboxCounts is how many events are in an [Inbox].
type InboxCounts struct {
	Waiting     int // to be taken, those that will be tried again included
	Running     int
	DeadLetters int // set aside
}
