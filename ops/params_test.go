package ops_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/ops"
	"github.com/lendingapi/lending-go/webhook"
)

func TestParametersAreChecked(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	for _, test := range []struct {
		path, want string
		status     int
	}{
		{"api/keys?limit=0", "limit must be from 1 to 1000", http.StatusBadRequest},
		{"api/keys?state=in-doubt", "no key has this state", http.StatusBadRequest},
		{"api/keys?older=soon", "older must be a duration", http.StatusBadRequest},
		{"api/key", "the parameter key is missing", http.StatusBadRequest},
		{inboxPath + "?limit=1001", "limit must be from 1 to 1000", http.StatusBadRequest},
		{inboxPath + "?from=now", "from must be a time", http.StatusBadRequest},
		{"api/inboxes/other", `"now":["web hooks"]`, http.StatusNotFound},
		{"api/inboxes/other/1", `"now":["web hooks"]`, http.StatusNotFound},
	} {
		t.Run(test.path, func(t *testing.T) {
			status, text := b.get(test.path)
			assert.Equal(t, test.status, status)
			assert.Contains(t, text, test.want)
		})
	}
	status, text := b.send(http.MethodGet, inboxPath+"/9", nil, http.Header{"X-Person": {person}})
	assert.Equal(t, http.StatusNotFound, status, "nobody has set this event aside")
	assert.Contains(t, text, "list the dead letters again")
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

func TestInboxThatFails(t *testing.T) {
	t.Parallel()
	b := open(t, func(o *ops.Options) { o.Inboxes = map[string]webhook.DeadLetters{"web hooks": downInbox{}} })
	for _, path := range []string{inboxPath, "api/health"} {
		status, text := b.get(path)
		assert.Equal(t, http.StatusServiceUnavailable, status, path)
		assert.Contains(t, text, "the store failed")
		assert.NotContains(t, text, "c4n4ry")
	}
	status, text := b.get("")
	require.Equal(t, http.StatusOK, status, "the page stays up")
	assert.Contains(t, text, "The store of the inbox web hooks fails since")
	assert.NotContains(t, text, "c4n4ry")
}

// TestCurveGrowsBySamples holds that the page shows the open keys over time from the second sample
// on, a minute after the first.
func TestCurveGrowsBySamples(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		handler := ops.Handler(ops.Options{})
		shown := func() string {
			recorder := httptest.NewRecorder()
			handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/ops/", nil))
			return recorder.Body.String()
		}
		assert.NotContains(t, shown(), "<polyline")
		time.Sleep(time.Minute) //nolint:forbidigo // on the bubble's clock
		assert.Contains(t, shown(), `<polyline points="0.0,20.0 100.0,20.0 "`)
	})
}
