package lendingbolt_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/lendingapi/lending-go/internal/test/shown"
	"github.com/lendingapi/lending-go/internal/test/webhooktest"
	"github.com/lendingapi/lending-go/webhook"
)

// TestWhatIsAliveCanBePrinted prints and compares an inbox while it works. A print without a lock
// would be a data race, which the detector reports.
func TestWhatIsAliveCanBePrinted(t *testing.T) {
	inbox := open(t, filepath.Join(t.TempDir(), "inbox"), nil)
	shown.Beside(t, []any{inbox}, func(ctx context.Context) {
		if event, err := webhook.Parse(webhooktest.Numbered()); err == nil {
			_ = inbox.Put(ctx, event)
		}
		if entry, err := inbox.Take(ctx); err == nil {
			_ = inbox.Done(ctx, entry)
		}
	})
}
