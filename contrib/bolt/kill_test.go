package lendingbolt_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/lendingapi/lending-go/internal/test/longrun"
	"github.com/lendingapi/lending-go/internal/test/onboardingtest"
	"github.com/lendingapi/lending-go/internal/test/webhooktest"

	lendingbolt "github.com/lendingapi/lending-go/contrib/bolt"
)

func TestMain(m *testing.M) {
	if code, isWorker := onboardingtest.Worker(openForWorker); isWorker {
		os.Exit(code)
	}
	os.Exit(webhooktest.Main(m, openStore))
}

func openStore(path string) (webhooktest.Store, error) {
	inbox, err := lendingbolt.OpenInbox(path, nil)
	return webhooktest.Store{Inbox: inbox, Close: inbox.Close}, err
}

// Twelve tries take minutes: the wait after the end of a process doubles.
func TestKillerIsSetAsideAndInnocentsAreNot(t *testing.T) {
	longrun.Kills(t)
	t.Parallel()
	webhooktest.Crash(t, filepath.Join(t.TempDir(), "inbox"), openStore)
}

func TestNothingIsLostUnderKill(t *testing.T) {
	longrun.Kills(t)
	webhooktest.Kill(t, filepath.Join(t.TempDir(), "inbox"), nil)
}
