package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/webhook"
)

func TestCauseShowsNoValueOfTheEvent(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789", 800)
	event := parsed(t, `{"webhookEvent":"WB_Loan_Opened","data":{"ssn":"123-45-6789","short":"123","code":731904,
		"name":"Ann \"A\" Lee","deep":[{"mail":"ann@example.com"}],"n":7,"yes":true,"amount":"ü€",
		"by phone" : {"4155550100":"home"}, "country":"+14",
		"byName":{"Lee, A\/B":1}, "note":"a<b \u00e9", "key":"`+long+`"}}`)
	for _, test := range []struct{ name, text, want string }{
		{"no value", "loan closed", "loan closed"},
		{"the longest value first", "ssn 123-45-6789 of 123", "ssn [redacted] of [redacted]"},
		{"a number", "code 731904", "code [redacted]"},
		{"a quoted value", fmt.Sprintf("name %q", `Ann "A" Lee`), `name "[redacted]"`},
		{"a value deep in the data", "mail to ann@example.com failed", "mail to [redacted] failed"},
		{"a value of fewer than 3 bytes", "7 tries", "7 tries"},
		{"a value that is not ASCII", "paid ü€", "paid [redacted]"},
		{"the name of a member", "ssn missing", "ssn missing"},
		{"control characters", "a\x00b\r\n\tc\x1b[31m d\u2028e\u202ef", "a b c [31m d e f"},
		{"bytes that are not UTF-8", "a\xffb", "ab"},
		{"a long text", strings.Repeat("é", 1000), strings.Repeat("é", 248) + "…"},
		{"a value longer than what is kept", strings.Repeat("é", 200) + long, strings.Repeat("é", 200) + "[redacted]"},
		{
			"values whose removal moves the rest forward",
			strings.Repeat(long, 2) + "x", "[redacted][redacted]x",
		},
		{"a name of a member that is a value", "no 4155550100 in by phone", "no [redacted] in [redacted]"},
		{"values that overlap", "no +14155550100", "no [redacted]"},
		{"a value as JSON escapes it", `{"note":"a\u003cb é"}`, `{"note":"[redacted]"}`},
		{"a value as the event escapes it", `a<b \u00e9, Lee, A\/B`, "[redacted], [redacted]"},
		{"a value with bytes that are not UTF-8", "731\xff904", "[redacted]"},
		{"a text that is too long", strings.Repeat("x", 1<<20) + "y", "an error with a text of more than 1 MiB"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := webhook.Cause(event, errors.New(test.text))
			require.Equal(t, test.want, got)
			require.True(t, utf8.ValidString(got))
			require.LessOrEqual(t, len(got), 500)
		})
	}
	require.Empty(t, webhook.Cause(event, nil))
	require.Equal(t, "an error whose method Error panics", webhook.Cause(event, panickingError{}))
	require.Equal(t, "a failure", webhook.Cause(parsed(t, `{"webhookEvent":"a"}`), errors.New("a failure")))
}

type panickingError struct{}

func (panickingError) Error() string { panic("731904") }

// fill puts events and makes each a dead letter.
func fill(t *testing.T, inbox webhook.Inbox, number int) {
	t.Helper()
	for n := range number {
		require.NoError(t, inbox.Put(t.Context(), parsed(t, fmt.Sprintf(`{"webhookEvent":"name %d","data":%d}`, n%2, n))))
		entry, err := inbox.Take(t.Context())
		require.NoError(t, err)
		require.NoError(t, inbox.DeadLetter(t.Context(), entry, errors.New("a failure")))
	}
}

func TestRedriveAllAndDropAll(t *testing.T) {
	t.Parallel()
	inbox := webhook.NewMemoryInbox()
	fill(t, inbox, 1203)
	redriven, err := webhook.RedriveAll(t.Context(), inbox, webhook.DeadLetterFilter{Event: "name 1", Limit: 3})
	require.NoError(t, err)
	require.Equal(t, 601, redriven)
	requireCounts(t, inbox, webhook.InboxCounts{Waiting: 601, DeadLetters: 602})
	dropped, err := webhook.DropAll(t.Context(), inbox, webhook.Decision{By: "kim", Why: "a test"},
		webhook.DeadLetterFilter{})
	require.NoError(t, err)
	require.Equal(t, 602, dropped)
	requireCounts(t, inbox, webhook.InboxCounts{Waiting: 601})
	dropped, err = webhook.DropAll(t.Context(), inbox, webhook.Decision{}, webhook.DeadLetterFilter{})
	require.NoError(t, err)
	require.Zero(t, dropped)
}

// An event that fails again at once is newer than the first page. RedriveAll ends all the same.
func TestRedriveAllEnds(t *testing.T) {
	t.Parallel()
	inbox := webhook.NewMemoryInbox()
	fill(t, inbox, 700)
	redriven, err := webhook.RedriveAll(t.Context(), failingAgain{inbox}, webhook.DeadLetterFilter{})
	require.NoError(t, err)
	require.Equal(t, 700, redriven)
	requireCounts(t, inbox, webhook.InboxCounts{DeadLetters: 700})
}

type failingAgain struct{ *webhook.MemoryInbox }

func (f failingAgain) Redrive(ctx context.Context, ids ...string) (int, error) {
	redriven, err := f.MemoryInbox.Redrive(ctx, ids...)
	for range redriven {
		entry, failed := f.Take(ctx)
		err = errors.Join(err, failed, f.DeadLetter(ctx, entry, nil))
	}
	return redriven, err
}

// The caller learns the number of dead letters that were redriven before the error.
func TestRedriveAllReportsAnError(t *testing.T) {
	t.Parallel()
	inbox := webhook.NewMemoryInbox()
	fill(t, inbox, 700)
	for _, test := range []struct {
		name     string
		letters  failingLetters
		redriven int
	}{
		{"of the list", failingLetters{inbox, new(0)}, 0},
		{"of the second list", failingLetters{inbox, new(1)}, 500},
	} {
		t.Run(test.name, func(t *testing.T) {
			redriven, err := webhook.RedriveAll(t.Context(), test.letters, webhook.DeadLetterFilter{})
			require.Error(t, err)
			require.Equal(t, test.redriven, redriven)
		})
	}
	_, err := webhook.DropAll(t.Context(), inbox, webhook.Decision{}, webhook.DeadLetterFilter{})
	require.ErrorContains(t, err, "name the person who decides")
}

// failingLetters lists so many pages, and fails then.
type failingLetters struct {
	*webhook.MemoryInbox
	pages *int
}

func (f failingLetters) DeadLetters(ctx context.Context, filter webhook.DeadLetterFilter) (
	[]webhook.DeadLetter, error,
) {
	if *f.pages--; *f.pages < 0 {
		return nil, errors.New("a failure")
	}
	return f.MemoryInbox.DeadLetters(ctx, filter)
}
