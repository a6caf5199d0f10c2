package ops_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/ops"
	"github.com/lendingapi/lending-go/webhook"
)

// A person can decide a withdrawal whose confirmation was lost, with HTTP alone, and the next call
// then replays the decision.
func TestPersonDecidesAWithdrawal(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	confirm := b.withdraw("order-42/confirm")
	b.service.Fail(confirmRoute, lendingtest.Fault{ResetAfter: true})
	require.Equal(t, lending.OutcomeUnknown, lending.OutcomeOf(confirm()))

	text := b.read("api/keys?state=doubt")
	require.Contains(t, text, `"key":"order-42/confirm"`)
	require.Contains(t, text, `"lookAt":["GET /api/Loan/get-withdrawals/`)
	require.Contains(t, text, `"loanId":`)

	text = b.refused(http.StatusConflict, "api/resolve",
		map[string]any{"key": "order-42/confirm", "verdict": "not_happened", "why": "no withdrawal"})
	require.Contains(t, text, `"notHappenedFrom":`, "the conflict says what is so now")

	answer := map[string]any{"id": "5f0f6d3e-8f3c-4f57-9d3b-0a1b2c3d4e5f"}
	order := map[string]any{
		"key": "order-42/confirm", "verdict": "happened", "why": "Loans.Withdrawals shows it", "answer": answer,
	}
	text = b.act("api/resolve", order)
	require.JSONEq(t, `{"done":1}`, text)
	require.NoError(t, confirm(), "the next call replays the answer")
	assert.Equal(t, 1, b.service.Executed(confirmRoute))

	text = b.read("api/key?key=" + url.QueryEscape("order-42/confirm"))
	assert.Contains(t, text, `"resolvedBy":"dora"`)
	assert.Contains(t, text, `"why":"Loans.Withdrawals shows it"`)

	order["verdict"] = "not_happened"
	text = b.refused(http.StatusConflict, "api/resolve", order)
	assert.Contains(t, text, `"state":"done"`)
	assert.Contains(t, b.actions.String(),
		`who=dora what="resolve \"order-42/confirm\": happened" why="Loans.Withdrawals shows it" records=1`)
}

// A verdict names the sends that the person has seen.
func TestPersonDecidesWhatThePageShowed(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	b.loseDocument("order-1/document")
	require.Contains(t, b.read("?prefix=order-1"), `name="sends" value="1"`)
	require.NoError(t, b.entries.Save(t.Context(), sentAgain(t, b.entries, ":order-1/document")))
	order := map[string]any{"key": "order-1/document", "verdict": "happened", "why": "seen"}
	for _, order["sends"] = range []int{1, 3} {
		require.Contains(t, b.refused(http.StatusConflict, "api/resolve", order), "sent again")
	}
	order["sends"] = 2
	b.act("api/resolve", order)
}

// sentAgain returns the stored entry with another send.
func sentAgain(t *testing.T, entries store.Store, key string) store.Entry {
	t.Helper()
	entry, err := entries.Load(t.Context(), key)
	require.NoError(t, err)
	entry.Data = bytes.Replace(entry.Data, []byte(`"number":1`), []byte(`"number":2`), 1)
	return *entry
}

// A wrong verdict can be corrected with HTTP alone, until a call relies on the verdict.
func TestPersonCorrectsAVerdict(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	b.loseDocument("order-1/document")
	order := map[string]any{"key": "order-1/document", "verdict": "happened", "why": "seen"}
	b.act("api/resolve", order)
	require.Contains(t, b.read("api/key?key=order-1/document"), `"correctable":true`)
	require.Contains(t, b.read("?prefix=order-1"), "Reason to correct the verdict")

	order["why"] = "the support has the document"
	b.refused(http.StatusConflict, "api/resolve", order)
	order["correct"] = true
	b.act("api/resolve", order)
	assert.Contains(t, b.read("api/key?key=order-1/document"), `"why":"the support has the document"`)
	assert.Contains(t, b.actions.String(), `what="correct \"order-1/document\": happened"`)

	var said []string
	for _, text := range regexp.MustCompile(`<li>.{19} (.*?)</li>`).FindAllStringSubmatch(b.read("?prefix=order-1"), -1) {
		said = append(said, text[1])
	}
	assert.Equal(t, []string{
		"sent 1 time", "in doubt: <bdi>connection reset</bdi>",
		"happened, without its response, by <bdi>dora</bdi>: <bdi>seen</bdi>",
		"happened, without its response, by <bdi>dora</bdi>: <bdi>the support has the document</bdi>",
	}, said, "one look tells what happened")
}

func TestKeysAreClassed(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	b.loseDocument("order-1/document")
	confirm := b.withdraw("order-2/confirm")
	b.service.Fail(confirmRoute, lendingtest.Fault{ResetAfter: true})
	require.Error(t, confirm())
	b.create("order-3/customer")

	for _, test := range []struct{ query, want string }{
		{"", "order-1/document review, order-2/confirm doubt, order-3/customer ended, "},
		{"?state=review", "order-1/document review, "},
		{"?state=doubt", "order-2/confirm doubt, "},
		{"?state=progress", ""},
		{"?state=done", "order-3/customer ended, "},
		{"?prefix=order-2/", "order-2/confirm doubt, "},
		{"?limit=1", "order-1/document review, "},
	} {
		t.Run(test.query, func(t *testing.T) {
			text := b.read("api/keys" + test.query)
			got := ""
			for _, k := range pageOf(t, text).Keys {
				got += k.Key + " " + k.Class + ", "
			}
			assert.Equal(t, test.want, got)
		})
	}
}

// A reader of the pages gets each key and each dead letter once, also with the largest limit.
func TestListsArePaged(t *testing.T) {
	t.Parallel()
	const keys, letters = 25, 2*webhook.MaxDeadLetters + 3
	b := open(t, nil)
	for n := range keys {
		b.create(fmt.Sprintf("order-%d", n))
	}
	for n := range letters {
		b.setAside(nil, event("a", n))
	}
	for _, test := range []struct {
		path          string
		entries, want int // the number of pages
	}{
		{"api/keys?limit=10", keys, 3},
		{inboxPath + "?limit=1000", letters, 3},
	} {
		t.Run(test.path, func(t *testing.T) {
			seen, pages := map[string]bool{}, 0
			for next := "-"; next != ""; pages++ {
				address := test.path
				if pages > 0 {
					address += "&after=" + url.QueryEscape(next)
				}
				page := pageOf(t, b.read(address))
				for _, entry := range append(page.Keys, page.DeadLetters...) {
					require.False(t, seen[entry.Key+entry.ID], entry)
					seen[entry.Key+entry.ID] = true
				}
				next = page.Next
			}
			assert.Len(t, seen, test.entries)
			assert.Equal(t, test.want, pages)
		})
	}
}

func TestStoreThatFails(t *testing.T) {
	t.Parallel()
	entries := &failing{Store: store.NewMemory()}
	b := open(t, func(o *ops.Options) {
		o.Log = fake.Must(idempotency.NewLog(entries, nil))
		o.Inboxes["down"] = downInbox{}
	})
	entries.fail(true)
	for _, path := range []string{"api/keys", "api/key?key=a", "api/inboxes/down", "api/health"} {
		t.Run(path, func(t *testing.T) {
			status, text := b.get(path)
			require.Equal(t, http.StatusServiceUnavailable, status, text)
			assert.Regexp(t, "lending/idempotency: |the store failed", text)
			assert.NotContains(t, text, "c4n4ry")
		})
	}
	text := b.read("")
	require.Contains(t, text, "The idempotency log fails: lending")
	require.Contains(t, text, "The inbox down fails: lending/ops: the store failed")
	require.NotContains(t, text, "c4n4ry")
	entries.fail(false)
	assert.Contains(t, b.read("api/keys"), `"keys":[]`)
	_, text = b.get("api/health")
	assert.Contains(t, text, `{"name":"idempotency log"}`)
}

// downInbox is an inbox whose store fails.
type downInbox struct{ letters }

type letters = webhook.DeadLetters

var errDown = errors.New("dial c4n4ry-inbox: refused")

func (downInbox) DeadLetters(context.Context, webhook.DeadLetterFilter) ([]webhook.DeadLetter, error) {
	return nil, errDown
}

func (downInbox) Counts(context.Context) (webhook.InboxCounts, error) {
	return webhook.InboxCounts{}, errDown
}

// TestKeyIsFoundAmongLongerKeys looks up a key that more keys begin with than a page has.
func TestKeyIsFoundAmongLongerKeys(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	for n := range 1001 {
		b.create(fmt.Sprintf("order-1%04d", n))
	}
	b.loseDocument("order-1")
	require.Contains(t, b.read("api/key?key=order-1"), `"key":"order-1","class":"review"`)
	b.act("api/resolve", map[string]any{"key": "order-1", "verdict": "happened", "why": "seen"})
}

// The program hears of a verdict, and of no refused verdict.
func TestVerdictIsTold(t *testing.T) {
	t.Parallel()
	var resolved []string
	b := open(t, func(o *ops.Options) {
		o.Resolved = func(key string) { resolved = append(resolved, key); panic("hush") }
	})
	b.loseDocument("order-1/document")
	verdict := map[string]any{"key": "order-1/document", "verdict": "not_happened", "why": "seen"}
	b.refused(http.StatusConflict, "api/resolve", verdict)
	require.Empty(t, resolved)
	verdict["verdict"] = "happened"
	b.act("api/resolve", verdict)
	assert.Equal(t, []string{"order-1/document"}, resolved)
}

// The page shows the key that needs a person behind hundreds of older keys that settle by
// themselves, and the keys are not all of them.
func TestReviewIsNotHiddenByDoubts(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	b.service.Fail("POST /api/Application/create-customer", lendingtest.Fault{ResetAfter: true, Times: -1})
	for n := range 501 {
		key := cmp.Or(map[int]string{0: "all", 1: "more-all"}[n], fmt.Sprint("order-", n))
		_, err := b.client.Applications.CreateCustomer(lending.WithIdempotencyKey(t.Context(), key), fake.Newcomer())
		require.Error(t, err)
	}
	b.loseDocument("order/document")
	late := fake.Must(idempotency.NewLog(b.entries, &idempotency.Options{MaxLateness: time.Nanosecond}))
	_, err := late.Check(t.Context(), b.client)
	require.NoError(t, err)
	text := b.read("")
	assert.Contains(t, text, `<article class="card" id="review-key-order/document">`)
	assert.Contains(t, text, `<span class="bad">Needs a person: 1 key.</span> In doubt: 500. In progress: 0. `+
		"(Of the oldest 500 keys of a state; there are more.)")
	assert.Regexp(t, `<h3><bdi>submit document</bdi></h3>\n.*application 0.*, sent 1 time, needs a person since `, text,
		"the row says what is at stake")
	ids := regexp.MustCompile(` id="[^"]+"`).FindAllString(text, -1)
	slices.Sort(ids)
	assert.Equal(t, slices.Compact(slices.Clone(ids)), ids, "no key gives two parts of the page the same id")
}

// entry is a key or a dead letter in a list.
type entry struct {
	Key, Class, ID, Cause string
	SetAside              time.Time
}

// pageOf decodes a page of keys or dead letters.
func pageOf(t *testing.T, text string) (page struct {
	Keys, DeadLetters []entry
	Next              string
},
) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &page), text)
	return page
}
