package lendingpostgres_test

import (
	"testing"

	"github.com/lendingapi/lending-go/internal/test/onboardingtest"
	"github.com/lendingapi/lending-go/internal/test/pgtest"
	"github.com/stretchr/testify/require"
)

// Mutations with keys happen once, however often the worker and PostgreSQL are killed.
// The proof that the documentation carries a backend to the end is 240 onboardings, as in
// CONTRIBUTING.md.
func TestMutationsAreDoneOnceUnderKill(t *testing.T) {
	cluster := pgtest.Run(t)
	url := migratedURL(t, databaseIn(t, cluster))
	restarts := 0
	onboardingtest.Kill(t, url, 2, func() {
		require.NoError(t, cluster.Restart())
		restarts++
	})
	t.Logf("PostgreSQL killed and restarted %d times", restarts)
}
