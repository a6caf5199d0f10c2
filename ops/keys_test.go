package ops_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
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

// TestPersonDecidesAWithdrawal holds that a person can decide a withdrawal whose confirmation was
// lost, with HTTP alone, and that the next call then replays the decision.
func TestPersonDecidesAWithdrawal(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	confirm := b.withdraw("order-42/confirm")
	b.service.Fail(confirmRoute, lendingtest.Fault{ResetAfter: true})
	require.Equal(t, lending.OutcomeUnknown, lending.OutcomeOf(confirm()))

	status, text := b.get("api/keys?state=doubt")
	require.Equal(t, http.StatusOK, status, text)
	require.Contains(t, text, `"key":"order-42/confirm"`)
	require.Contains(t, text, `"checkWith":"Loans.Withdrawals, Loans.TotalBalance"`)
	require.Contains(t, text, `"loanId":`)

	status, text = b.post("api/resolve",
		map[string]any{"key": "order-42/confirm", "verdict": "not_happened", "why": "no withdrawal"})
	require.Equal(t, http.StatusConflict, status, text)
	require.Contains(t, text, `"notHappenedFrom":`, "the conflict says what is so now")

	answer := map[string]any{"id": "5f0f6d3e-8f3c-4f57-9d3b-0a1b2c3d4e5f"}
	order := map[string]any{
		"key": "order-42/confirm", "verdict": "happened", "why": "Loans.Withdrawals shows it", "answer": answer,
	}
	status, text = b.post("api/resolve", order)
	require.Equal(t, http.StatusOK, status, text)
	require.JSONEq(t, `{"done":1}`, text)
	require.NoError(t, confirm(), "the next call replays the answer")
	assert.Equal(t, 1, b.service.Executed(confirmRoute))

	status, text = b.get("api/key?key=" + url.QueryEscape("order-42/confirm"))
	require.Equal(t, http.StatusOK, status)
	assert.Contains(t, text, `"resolvedBy":"dora"`)
	assert.Contains(t, text, `"why":"Loans.Withdrawals shows it"`)

	order["verdict"] = "not_happened"
	status, text = b.post("api/resolve", order)
	require.Equal(t, http.StatusConflict, status, "a second person is too late: %s", text)
	assert.Contains(t, text, `"state":"done"`)
	assert.Contains(t, b.actions.String(),
		`who=dora what="resolve \"order-42/confirm\": happened" why="Loans.Withdrawals shows it" records=1`)
}

// TestPersonCorrectsAVerdict holds that a wrong verdict can be corrected with HTTP alone, until a
// call relies on the verdict.
func TestPersonCorrectsAVerdict(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	b.loseDocument("order-1/document")
	order := map[string]any{"key": "order-1/document", "verdict": "happened", "why": "seen"}
	status, text := b.post("api/resolve", order)
	require.Equal(t, http.StatusOK, status, text)
	_, text = b.get("api/key?key=order-1/document")
	require.Contains(t, text, `"correctable":true`)
	_, text = b.send(http.MethodGet, "?prefix=order-1", nil, http.Header{"X-Person": {person}})
	require.Contains(t, text, "Correct the verdict")

	order["why"] = "the support has the document"
	status, text = b.post("api/resolve", order)
	require.Equal(t, http.StatusConflict, status, text)
	order["correct"] = true
	status, text = b.post("api/resolve", order)
	require.Equal(t, http.StatusOK, status, text)
	_, text = b.get("api/key?key=order-1/document")
	assert.Contains(t, text, `"why":"the support has the document"`)
	assert.Contains(t, b.actions.String(), `what="correct \"order-1/document\": happened"`)
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
		{"?older=1h", ""},
		{"?limit=1", "order-1/document review, "},
	} {
		t.Run(test.query, func(t *testing.T) {
			status, text := b.get("api/keys" + test.query)
			require.Equal(t, http.StatusOK, status, text)
			got := ""
			for _, k := range keysIn(t, text).Keys {
				got += k.Key + " " + k.Class + ", "
			}
			assert.Equal(t, test.want, got)
		})
	}
}

// TestKeysArePaged holds that a reader of the pages gets each key once.
func TestKeysArePaged(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	for n := range 25 {
		b.create(fmt.Sprintf("order-%d", n))
	}
	seen := map[string]int{}
	for next := ""; ; {
		status, text := b.get("api/keys?limit=10&after=" + url.QueryEscape(next))
		require.Equal(t, http.StatusOK, status, text)
		page := keysIn(t, text)
		for _, k := range page.Keys {
			seen[k.Key]++
		}
		if next = page.Next; next == "" {
			break
		}
	}
	assert.Len(t, seen, 25)
	for name, n := range seen {
		assert.Equal(t, 1, n, name)
	}
}

func TestUnknownKeyNamesTheNearest(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	b.create("order-42/customer")
	for _, key := range []string{"order-42/costumer", "order-43/customer", "nothing"} {
		t.Run(key, func(t *testing.T) {
			status, text := b.get("api/key?key=" + url.QueryEscape(key))
			require.Equal(t, http.StatusNotFound, status)
			assert.Contains(t, text, `"now":["order-42/customer"]`)
		})
	}
}

func TestStoreThatFails(t *testing.T) {
	t.Parallel()
	entries := &failing{Store: store.NewMemory()}
	b := open(t, func(o *ops.Options) { o.Log = fake.Must(idempotency.NewLog(entries, nil)) })
	entries.fail(true)
	for _, path := range []string{"api/keys", "api/key?key=a", "api/health"} {
		t.Run(path, func(t *testing.T) {
			status, text := b.get(path)
			require.Equal(t, http.StatusServiceUnavailable, status, text)
			assert.Contains(t, text, "lending/idempotency: ")
			assert.NotContains(t, text, "c4n4ry")
		})
	}
	status, text := b.get("")
	require.Equal(t, http.StatusOK, status, "the page stays up")
	require.Contains(t, text, "The store of the idempotency log fails since")
	status, text = b.get("api/counts")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, text, `"down":[{"store":"idempotency log","since":"`)
	entries.fail(false)
	status, text = b.get("api/health")
	require.Equal(t, http.StatusOK, status)
	assert.NotContains(t, text, "since")
}

// TestReplicasShowTheSame holds that two handlers over the same stores show the same, and that a
// decision at one replica is the state at the other.
func TestReplicasShowTheSame(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	b.loseDocument("order-1/document")
	b.setAside(nil, event("a", 1))
	other := *b
	other.address = b.serve(ops.Options{Log: b.log, Inboxes: map[string]webhook.DeadLetters{"web hooks": b.inbox}})
	state := func(b *backend) (all string) {
		for _, path := range []string{"api/keys", inboxPath} {
			_, text := b.get(path)
			all += times.ReplaceAllString(text, "")
		}
		return all
	}
	before := state(b)
	require.Contains(t, before, "order-1/document")
	require.Equal(t, before, state(&other))
	status, text := b.post("api/resolve", map[string]any{"key": "order-1/document", "verdict": "happened", "why": "seen"})
	require.Equal(t, http.StatusOK, status, text)
	status, text = b.post(inboxPath+"/redrive", map[string]any{"all": true})
	require.Equal(t, http.StatusOK, status, text)
	require.NotEqual(t, before, state(&other))
	require.Equal(t, state(b), state(&other))
}

var times = regexp.MustCompile(`"\d{4}-\d\d-\d\dT[^"]*"`)

// TestReviewIsNotHiddenByDoubts holds that the page shows the key that needs a person behind
// hundreds of older keys that settle by themselves, and that the keys are not all of them.
func TestReviewIsNotHiddenByDoubts(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	b.service.Fail("POST /api/Application/create-customer", lendingtest.Fault{ResetAfter: true, Times: -1})
	for n := range 501 {
		keyed := lending.WithIdempotencyKey(t.Context(), fmt.Sprintf("order-%d", n))
		_, err := b.client.Applications.CreateCustomer(keyed, fake.Newcomer())
		require.Error(t, err)
	}
	b.loseDocument("order/document")
	late := fake.Must(idempotency.NewLog(b.entries, &idempotency.Options{MaxLateness: time.Nanosecond}))
	_, err := late.Check(t.Context(), b.client)
	require.NoError(t, err)
	_, text := b.get("")
	assert.Contains(t, text, `<tr id="review-order/document">`)
	assert.Contains(t, text, "Needs a person: 1 key. In doubt: 500. In progress: 0. "+
		"(Of the oldest 500 keys of a state; there are more.)")
}

// keysIn decodes a page of keys.
func keysIn(t *testing.T, text string) (page struct {
	Keys []struct{ Key, Class string }
	Next string
},
) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &page))
	return page
}
