package ops_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/ops"
)

// TestPauseIsShownToEverybody has a person pause the log and resume it: the page and the JSON tell
// who, since when and why, and the logger has both actions.
func TestPauseIsShownToEverybody(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	confirm := b.withdraw("order-42/confirm")
	require.Equal(t, "[]\n", b.read("api/standing"))
	require.Contains(t, b.refused(http.StatusBadRequest, "api/pause", map[string]any{}), "Why")
	b.act("api/pause", map[string]any{"why": "<b>doubled</b>"})
	assert.Regexp(t, `^\[{"instruction":"paused","by":"`+person+`","why":".*doubled.*","since":"20..-`,
		b.read("api/standing"))
	second := b.refused(http.StatusConflict, "api/pause", map[string]any{"why": "me too"})
	assert.Contains(t, second, "the operator has paused the log: by "+person+" since ")
	shown := b.read("")
	assert.Contains(t, shown, "The log is paused by <bdi>"+person+"</bdi> since ")
	assert.Contains(t, shown, "&lt;b&gt;doubled")
	assert.Contains(t, shown, "<button>Resume the log</button>")
	assert.NotContains(t, shown, "<button>Pause the log</button>")
	assert.ErrorIs(t, confirm(), idempotency.ErrPaused)
	b.act("api/resume", map[string]any{})
	assert.NotContains(t, b.read(""), "doubled")
	assert.NoError(t, confirm())
	assert.Contains(t, b.actions.String(), "what=pause why=<b>doubled</b>")
	assert.Contains(t, b.actions.String(), "what=resume")
}

func TestRestoredStoreIsShown(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	b.refused(http.StatusBadRequest, "api/restored", map[string]any{"since": "2999-01-01 00:00:00"})
	b.refused(http.StatusBadRequest, "api/restored", map[string]any{"since": "2026-01-01 00:00:00", "for": "a day"})
	b.act("api/restored", map[string]any{"since": "2026-01-01 00:00:00", "for": "72h"})
	want := `"instruction":"restored","by":"` + person +
		`","why":"the store is a copy of 2026-01-01 00:00:00 UTC",.*"until":`
	assert.Regexp(t, want, b.read("api/standing"))
	assert.Contains(t, b.read(""), "the store is a copy of 2026-01-01 00:00:00 UTC")
	assert.Contains(t, b.actions.String(), `what="restored since 2026-01-01 00:00:00"`)
}

func TestHandlerWithoutALogCannotPause(t *testing.T) {
	t.Parallel()
	b := open(t, func(o *ops.Options) { o.Log = nil })
	b.refused(http.StatusNotFound, "api/pause", map[string]any{"why": "a test"})
	b.refused(http.StatusNotFound, "api/resume", map[string]any{})
	status, _ := b.get("api/standing")
	assert.Equal(t, http.StatusNotFound, status)
}

// panicking panics in a save, like a check with a mistake of the program.
type panicking struct{ store.Store }

func (panicking) Save(context.Context, store.Entry) error { panic("hush") }

func TestPanicOfAnActionIsAnswered(t *testing.T) {
	t.Parallel()
	b := open(t, func(o *ops.Options) { o.Log = fake.Must(idempotency.NewLog(panicking{store.NewMemory()}, nil)) })
	text := b.refused(http.StatusServiceUnavailable, "api/pause", map[string]any{"why": "a test"})
	assert.Contains(t, text, "a function panicked with a value of type string")
	assert.Contains(t, b.actions.String(), "panicked")
	assert.Contains(t, b.actions.String(), "standing_test.go", "the stack")
	assert.NotContains(t, text+b.actions.String(), "hush")
}
