package lendingbolt_test

import (
	"path/filepath"
	"testing"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/onboardingtest"

	lendingbolt "github.com/lendingapi/lending-go/contrib/bolt"
)

func openForWorker(path string) (lending.JournalStore, func() error, error) {
	store, err := lendingbolt.OpenJournalStore(path, nil)
	if err != nil {
		return nil, nil, err
	}
	return store, store.Close, nil
}

// What a worker does with keys is done once, however often it is killed.
func TestCommandsAreDoneOnceUnderKill(t *testing.T) {
	onboardingtest.Kill(t, filepath.Join(t.TempDir(), "journal"), nil)
}
