package webhook

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/claimer"
	"github.com/lendingapi/lending-go/internal/format"
	"github.com/lendingapi/lending-go/internal/redact"
)

// DeadLetters is the operator's side of an [Inbox]: the events set aside by [Work]. The inboxes
// of this library implement DeadLetters, and the suite Inbox of package lendingtest/storetest
// tests an implementation.
//
// Each dead letter has an ID of digits and hyphens. After Redrive or Drop the ID matches
// nothing: a second call, perhaps of another person, does nothing.
type DeadLetters interface {
	// DeadLetters returns the dead letters that match filter, newest first. A page shorter than
	// the limit is the last.
	DeadLetters(ctx context.Context, filter DeadLetterFilter) ([]DeadLetter, error)
	// DeadLetterEvent returns the event itself, with its data: codes and personal data. If no
	// dead letter has the ID, the error is [ErrNoDeadLetter]. [Parse] refuses the bytes of an
	// event without a name.
	DeadLetterEvent(ctx context.Context, id string) (*Event, error)
	// Redrive makes dead letters due again, without their earlier tries, and returns their
	// number. All change, or none. Pass at most [MaxDeadLetters] ids.
	Redrive(ctx context.Context, ids ...string) (int, error)
	// Drop removes dead letters for ever, and returns their number. All go, or none. The inbox
	// still skips repetitions of their events. Pass at most [MaxDeadLetters] ids.
	Drop(ctx context.Context, by Decision, ids ...string) (int, error)
	// Erase removes all events that mention one of the ids of a person, such as the customer id
	// and the application ids: waiting events, running events and dead letters. It returns their
	// number, also with an error. The inbox still skips repetitions of these events. An id has
	// at least [MinErased] bytes. Erase reads all events; the service can send further events.
	Erase(ctx context.Context, by Decision, ids ...string) (int, error)
	// Removed returns what Drop and Erase removed, the newest first. The inbox keeps the list for
	// ever: about 250 bytes for each event, without its data. A limit is at most
	// [MaxDeadLetters].
	Removed(ctx context.Context, limit int) ([]Removed, error)
	// Counts returns the number of events in the inbox.
	Counts(ctx context.Context) (InboxCounts, error)
	// Ages returns the age of the oldest dead letter, among others.
	Ages(ctx context.Context) (InboxAges, error)
}

// DeadLetter describes an event set aside, without its data.
type DeadLetter struct {
	ID       string            `json:"id"`               // the inbox's own identifier
	Key      string            `json:"key"`              // see [Event.Key]
	Event    lending.EventName `json:"event"`            // empty if [Parse] refuses the bytes
	Created  time.Time         `json:"created,omitzero"` // see [Event.Created]
	SetAside time.Time         `json:"setAside"`         // by the clock of the inbox
	Cause    string            `json:"cause"`            // see [Cause]
	Tries    int               `json:"tries"`            // see [InboxEntry]
}

// UnmarshalJSON reads a stored description. If a newer release has stored the description, the
// Cause says so.
func (l *DeadLetter) UnmarshalJSON(text []byte) error {
	type plain DeadLetter
	var stored struct {
		Version format.Version `json:"v"`
		plain
	}
	err := json.Unmarshal(text, &stored)
	*l = DeadLetter(stored.plain)
	if newer := stored.Version.Check(1, "the dead letter"); newer != nil {
		l.Cause, err = newer.Error(), nil
	}
	return err
}

// Decision is who removes events for ever, and why. Both are required, and kept for ever: Why is
// no place for personal data.
type Decision struct {
	By  string `json:"by"`
	Why string `json:"why"`
}

// Removed is the trace of an event that [DeadLetters].Drop or Erase has removed.
type Removed struct {
	Decision

	At    time.Time         `json:"at"`
	ID    string            `json:"id,omitempty"` // of the dead letter; empty for another event
	Key   string            `json:"key"`          // see [Event.Key]
	Event lending.EventName `json:"event"`
}

// NewRemoved describes the removal of an event. The id is that of its dead letter, or empty.
func NewRemoved(by Decision, id, key string, event lending.EventName) Removed {
	return Removed{by, time.Now().UTC(), id, key, event}
}

// DeadLetterFilter selects dead letters. The zero value selects the newest.
type DeadLetterFilter struct {
	Event lending.EventName // only events of this name
	After string            // ID of the last dead letter of the previous page: only older ones
	Limit int               // the largest number; 100, and at most [MaxDeadLetters]
}

// MaxDeadLetters is the largest number of dead letters in a call.
const MaxDeadLetters = claimer.MaxDeadLetters

// MinErased is the shortest id for [DeadLetters].Erase: a shorter id could be a part of any value.
const MinErased = claimer.MinErased

// ErrNoDeadLetter means a missing dead letter: somebody redrove or dropped it.
var ErrNoDeadLetter error = redact.Text("lending/webhook: no dead letter has this id; list the dead letters again")

// Matches reports whether the filter selects letter, apart from After and Limit.
func (f DeadLetterFilter) Matches(letter DeadLetter) bool {
	return f.Event == "" || f.Event == letter.Event
}

// WithDefaults returns the filter with a Limit within the bounds.
func (f DeadLetterFilter) WithDefaults() DeadLetterFilter {
	if f.Limit <= 0 {
		f.Limit = 100
	}
	f.Limit = min(f.Limit, MaxDeadLetters)
	return f
}

// NewDeadLetter describes the event of entry, set aside because of cause. The inbox adds the ID
// and the time.
func NewDeadLetter(entry *InboxEntry, cause error) DeadLetter {
	event := cmp.Or(entry.Event, new(Event))
	return DeadLetter{
		Key: event.Key(), Event: event.Name, Created: event.Created.UTC(),
		Cause: Cause(event, cause), Tries: entry.Tries,
	}
}

// RedriveAll redrives all dead letters that match filter, in batches, and ignores its Limit. It
// returns the number of redriven letters, also after an error: then call it again. A letter that
// fails again meanwhile stays.
func RedriveAll(ctx context.Context, letters DeadLetters, filter DeadLetterFilter) (int, error) {
	return eachPage(ctx, letters, filter, letters.Redrive)
}

// DropAll drops all dead letters that match filter, in batches, and ignores its Limit. It
// returns the number of dropped letters, also after an error. Letters that arrive meanwhile stay.
// To drop only letters that a person has seen, pass their IDs to Drop.
func DropAll(ctx context.Context, letters DeadLetters, by Decision, filter DeadLetterFilter) (int, error) {
	return eachPage(ctx, letters, filter, func(ctx context.Context, ids ...string) (int, error) {
		return letters.Drop(ctx, by, ids...)
	})
}

// eachPage calls act for the dead letters that match filter. Letters that are set aside meanwhile
// are newer than the first page, so eachPage does not meet them.
func eachPage(
	ctx context.Context, letters DeadLetters, filter DeadLetterFilter, act func(ctx context.Context, ids ...string) (int, error),
) (total int, err error) {
	filter.Limit = MaxDeadLetters
	for {
		page, err := letters.DeadLetters(ctx, filter)
		if err != nil || len(page) == 0 {
			return total, err
		}
		ids := make([]string, len(page))
		for i, letter := range page {
			ids[i] = letter.ID
		}
		acted, err := act(ctx, ids...)
		total += acted
		if err != nil || len(page) < MaxDeadLetters {
			return total, err
		}
		filter.After = ids[len(ids)-1]
	}
}
