package webhooktest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

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
	if counts, err := inbox.Counts(t.Context()); err != nil || counts != want {
		t.Fatalf("counts: got %+v and error %v, want %+v", counts, err, want)
	}
}

// SetsAsideWhatIsNoEvent takes from an inbox whose first event has the body "{{{", for example from
// another version, and whose second event is a. The first becomes a dead letter with its body.
func SetsAsideWhatIsNoEvent(t *testing.T, inbox fullInbox) {
	t.Helper()
	if _, err := inbox.Take(t.Context()); err == nil || !strings.Contains(err.Error(), "dead letter") {
		t.Fatalf("take: got error %v, want one about a dead letter", err)
	}
	Take(t, inbox, "a")
	WantCounts(t, inbox, webhook.InboxCounts{Running: 1, DeadLetters: 1})
	letters, err := inbox.DeadLetters(t.Context(), webhook.DeadLetterFilter{})
	must(t, "dead letters", err)
	const cause = "lending/webhook: event: want a JSON object with the member webhookEvent, a string"
	if len(letters) != 1 || letters[0].Cause != cause || letters[0].Tries != 1 {
		t.Fatalf("dead letters: got %+v, want one with 1 try and the cause %q", letters, cause)
	}
	event, err := inbox.DeadLetterEvent(t.Context(), letters[0].ID)
	must(t, "dead letter", err)
	if string(event.Body()) != "{{{" {
		t.Fatalf("dead letter: got %q, want its body", event.Body())
	}
}

// Encryption returns an encryption with a key of the tests.
func Encryption() *webhook.Encryption {
	encryption, err := webhook.NewEncryption(make([]byte, 32))
	if err != nil {
		panic(err)
	}
	return encryption
}
