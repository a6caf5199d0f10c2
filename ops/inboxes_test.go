package ops_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/webhook"
)

const inboxPath = "api/inboxes/web%20hooks"

func (b *backend) letters(query string) []entry {
	b.Helper()
	return pageOf(b.T, b.read(inboxPath+query)).DeadLetters
}

func TestDeadLettersAreRedrivenAndDropped(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	b.setAside(errors.New("no loan yet"),
		event("WB_Loan_Created", 1), event("WB_Loan_Created", 2), event("WB_Loan_Closed", 3))
	all := b.letters("")
	require.Len(t, all, 3)
	assert.Equal(t, "no loan yet", all[0].Cause)
	closed := b.letters("?event=WB_Loan_Closed")
	require.Len(t, closed, 1)
	assert.Equal(t, all[0], closed[0], "the newest is the first")
	assert.Equal(t, all[1:], b.letters("?after="+all[0].ID))

	text := b.act(inboxPath+"/redrive", map[string]any{"ids": []string{all[2].ID}})
	require.JSONEq(t, `{"done":1}`, text)
	text = b.refused(http.StatusConflict, inboxPath+"/redrive", map[string]any{"id": all[2].ID})
	require.Contains(t, text, `"now":{"waiting":1,"running":0,"deadLetters":2}`)

	b.act(inboxPath+"/drop", map[string]any{"all": true, "event": "WB_Loan_Closed", "why": "a test event"})
	left := b.letters("")
	require.Len(t, left, 1)
	assert.Equal(t, all[1].ID, left[0].ID)
	assert.Contains(t, b.actions.String(),
		`what="drop all dead letters of \"web hooks\", event \"WB_Loan_Closed\"" why="a test event" records=1`)
}

func TestOrdersForDeadLettersAreChecked(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	b.setAside(nil, event("a", 1))
	for _, test := range []struct {
		path   string
		order  map[string]any
		status int
	}{
		{inboxPath + "/redrive", map[string]any{}, http.StatusBadRequest},
		{inboxPath + "/redrive", map[string]any{"ids": []string{"1"}, "all": true}, http.StatusBadRequest},
		{inboxPath + "/redrive", map[string]any{"ids": make([]string, webhook.MaxDeadLetters+1)}, http.StatusBadRequest},
		{inboxPath + "/drop", map[string]any{"all": true, "before": "2026-11-22", "why": "old"}, http.StatusBadRequest},
		{inboxPath + "/drop", map[string]any{"all": true, "event": "none", "why": "old"}, http.StatusConflict},
		{"api/inboxes/other/drop", map[string]any{"all": true, "why": "old"}, http.StatusNotFound},
	} {
		t.Run(fmt.Sprint(test.path, len(fmt.Sprint(test.order))), func(t *testing.T) {
			status, text := b.post(test.path, test.order)
			assert.Equal(t, test.status, status, text)
		})
	}
	assert.Len(t, b.letters(""), 1)
}

// A drop is for ever, so it needs a reason, and the log says who dropped which event and why.
func TestDropIsExplained(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	b.setAside(nil, event("a", 1))
	id := b.letters("")[0].ID
	for _, order := range []map[string]any{{"id": id}, {"ids": []string{id}, "why": " "}, {"all": true}} {
		assert.Contains(t, b.refused(http.StatusBadRequest, inboxPath+"/drop", order), "why is required")
	}
	b.act(inboxPath+"/drop", map[string]any{"id": id, "why": "a test event"})
	assert.Empty(t, b.letters(""))
	assert.Contains(t, b.actions.String(), fmt.Sprintf(
		`who=dora what="drop 1 dead letter of \"web hooks\", ids [\"%s\"]" why="a test event" records=1`, id))
}

func TestDataOfAnEventNeedsARight(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	b.setAside(nil, event("a", 7))
	path := inboxPath + "/" + url.PathEscape(b.letters("")[0].ID)
	status, text := b.get(path)
	require.Equal(t, http.StatusForbidden, status)
	require.NotContains(t, text, `"n":7`)
	text = b.read(path)
	assert.Contains(t, text, `"n":7`)
	assert.Contains(t, b.actions.String(), "see the data of web hooks/")
}

// No event, cause or key can put an element or a script on the page.
func TestHostileTextsAreShownAsText(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	const hostile = `"><script>alert(1)</script><img src=x onerror=alert(2)>`
	b.setAside(errors.New(hostile), event(hostile, 1), event("a\u202eb\u2066c", 2))
	b.loseDocument("order/" + hostile)
	text := b.read("?prefix=" + url.QueryEscape("order/"+hostile))
	assert.NotContains(t, text, "<script>alert")
	assert.NotContains(t, text, "<img")
	assert.Equal(t, 1, strings.Count(text, "<script"), "the page's own")
	assert.Contains(t, text, "&lt;script&gt;alert(1)")
}

// The page shows the oldest rows of a long list.
func TestPageIsBounded(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	for n := range 2000 {
		b.setAside(nil, event("a", n))
	}
	text := b.read("")
	assert.Equal(t, 20, strings.Count(text, `<article class="card" id="letter-`))
	assert.Contains(t, text, "2000 dead letters")
	assert.Less(t, len(text), 200_000)
}
