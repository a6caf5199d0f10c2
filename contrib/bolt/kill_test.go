package lendingbolt_test

import (
	"path/filepath"
	"testing"

	lendingbolt "github.com/lendingapi/lending-go/contrib/bolt"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/webhooktest"
)

func TestMain(m *testing.M) {
	webhooktest.Main(m, func(path string) (lending.Inbox, error) { return lendingbolt.Open(path, nil) })
}

func TestNothingIsLostUnderKill(t *testing.T) {
	webhooktest.Kill(t, filepath.Join(t.TempDir(), "inbox"), nil)
}
