package lendingbolt_test

import (
	"io"
	"path/filepath"
	"testing"

	"github.com/lendingapi/lending-go/internal/test/longrun"
	"github.com/lendingapi/lending-go/internal/test/onboarding"
	"github.com/lendingapi/lending-go/internal/test/onboardingtest"
	"github.com/stretchr/testify/assert"

	lendingbolt "github.com/lendingapi/lending-go/contrib/bolt"
)

func openForWorker(path string) (o onboardingtest.Opened, err error) {
	entries, err := lendingbolt.OpenIdempotencyStore(path, nil)
	if err != nil {
		return o, err
	}
	return onboardingtest.Opened{Store: entries, Close: entries.Close}, nil
}

// Mutations with keys happen once, however often the worker is killed. The figures of README are
// those of -onboardings 300 -workerkills 60 -readlag 500ms.
func TestMutationsAreDoneOnceUnderKill(t *testing.T) {
	longrun.Kills(t)
	for _, framework := range []string{"", "2.3"} {
		t.Run("framework "+framework, func(t *testing.T) {
			how := onboardingtest.How{Replicas: 1, Framework: framework, Open: openForWorker}
			onboardingtest.Kill(t, filepath.Join(t.TempDir(), "log"), how)
		})
	}
}

// A wrong number of records is an error.
func TestCountFails(t *testing.T) {
	assert.Error(t, onboarding.Result{}.Count(io.Discard, 10))
}
