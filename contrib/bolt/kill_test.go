package lendingbolt_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/lendingapi/lending-go/internal/webhooktest"

	lendingbolt "github.com/lendingapi/lending-go/contrib/bolt"
)

func TestMain(m *testing.M) {
	os.Exit(webhooktest.Main(m, func(path string) (webhooktest.Store, error) {
		inbox, err := lendingbolt.Open(path, nil)
		return webhooktest.Store{Inbox: inbox}, err
	}))
}

func TestNothingIsLostUnderKill(t *testing.T) {
	webhooktest.Kill(t, filepath.Join(t.TempDir(), "inbox"), nil)
}
