package lendingpostgres_test

import (
	"testing"

	"github.com/lendingapi/lending-go/internal/test/onboardingtest"
	"github.com/lendingapi/lending-go/internal/test/pgtest"
	"github.com/stretchr/testify/require"
)

// Mutations with keys happen once, however often the worker and PostgreSQL are killed.
// Two replicas carry the orders out as in AGENTS.md, in a long run 240 orders.
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
