package lendingbolt_test

import (
	"context"
	"crypto/rand"
	"path/filepath"
	"testing"

	"github.com/lendingapi/lending-go/internal/test/shown"
	"github.com/lendingapi/lending-go/webhook"
	"github.com/stretchr/testify/assert"
)

// TestWhatIsAliveCanBePrinted prints and compares an inbox while it works. A print without a lock
// would be a data race, which the detector reports.
func TestWhatIsAliveCanBePrinted(t *testing.T) {
	inbox := open(t, filepath.Join(t.TempDir(), "inbox"), nil)
	shown.Beside(t, []any{inbox}, func(ctx context.Context) {
		event, err := webhook.Parse([]byte(`{"webhookEvent":"WB_Send_Otp","data":"` + rand.Text() + `"}`))
		if assert.NoError(t, err) {
			_ = inbox.Put(ctx, event)
		}
		if entry, err := inbox.Take(ctx); err == nil {
			_ = inbox.Done(ctx, entry)
		}
	})
}
