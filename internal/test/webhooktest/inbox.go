package webhooktest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/webhook"
)

type fullInbox interface {
	webhook.Inbox
	webhook.DeadLetters
}

// Take takes the event with a name. For "", Take checks that no event is due for a moment.
func Take(t *testing.T, inbox webhook.Inbox, name lending.EventName) *webhook.InboxEntry {
	t.Helper()
	patience := time.Minute
	if name == "" {
		patience = 100 * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	entry, err := inbox.Take(ctx)
	switch {
	case name == "" && errors.Is(err, context.DeadlineExceeded):
		return nil
	case name == "" || err != nil || entry.Event.Name != name:
		t.Fatalf("take: got %+v and error %v, want event %q", entry, err, name)
	}
	return entry
}

// WantCounts checks the number of events in each state.
func WantCounts(t *testing.T, inbox webhook.Inbox, want webhook.InboxCounts) {
	t.Helper()
	counts, err := inbox.Counts(t.Context())
	require.NoError(t, err)
	require.Equal(t, want, counts)
}

// SetsAsideWhatIsNoEvent takes from an inbox whose first event has the body "{{{", for example from
// another version, and whose second event is a. The first becomes a dead letter with its body.
func SetsAsideWhatIsNoEvent(t *testing.T, inbox fullInbox) {
	t.Helper()
	_, err := inbox.Take(t.Context())
	require.ErrorContains(t, err, "dead letter")
	Take(t, inbox, "a")
	WantCounts(t, inbox, webhook.InboxCounts{Running: 1, DeadLetters: 1})
	letters, err := inbox.DeadLetters(t.Context(), webhook.DeadLetterFilter{})
	require.NoError(t, err, "dead letters")
	const cause = "lending/webhook: event: want a JSON object with the member webhookEvent, a string"
	require.Len(t, letters, 1)
	require.Equal(t, cause, letters[0].Cause)
	require.Equal(t, 1, letters[0].Tries)
	event, err := inbox.DeadLetterEvent(t.Context(), letters[0].ID)
	require.NoError(t, err, "dead letter")
	require.Equal(t, "{{{", string(event.Body()))
}
