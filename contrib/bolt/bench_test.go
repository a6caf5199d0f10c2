package lendingbolt_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/lendingapi/lending-go/internal/test/webhooktest"
	"github.com/lendingapi/lending-go/webhook"
	"github.com/stretchr/testify/require"

	lendingbolt "github.com/lendingapi/lending-go/contrib/bolt"
)

// BenchmarkAccept has a floor that writes and syncs each event by hand.
func BenchmarkAccept(b *testing.B) {
	webhooktest.BenchmarkAccept(b, func(b *testing.B) (webhook.Inbox, webhook.EventFunc) {
		b.Helper()
		inbox, err := lendingbolt.OpenInbox(filepath.Join(b.TempDir(), "inbox"), nil)
		require.NoError(b, err)
		b.Cleanup(func() { _ = inbox.Close() })
		file, err := os.OpenFile(filepath.Join(b.TempDir(), "floor"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		require.NoError(b, err)
		b.Cleanup(func() { _ = file.Close() })
		var mu sync.Mutex
		return inbox, func(_ context.Context, event *webhook.Event) error {
			mu.Lock()
			defer mu.Unlock()
			if _, err := file.Write(event.Body()); err != nil {
				return err
			}
			return file.Sync()
		}
	})
}
