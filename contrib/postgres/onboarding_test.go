package lendingpostgres_test

import (
	"testing"

	"github.com/lendingapi/lending-go/internal/test/onboardingtest"
	"github.com/lendingapi/lending-go/internal/test/pgtest"
	"github.com/stretchr/testify/require"
)

// Mutations with keys happen once, however often the worker and PostgreSQL are killed. With
// LENDING_TEST_FLEET=3, three workers run at a time, and are killed together.
func TestMutationsAreDoneOnceUnderKill(t *testing.T) {
	cluster := pgtest.Run(t)
	url := migratedURL(t, databaseIn(t, cluster))
	restarts := 0
	onboardingtest.Kill(t, url, func() {
		require.NoError(t, cluster.Restart())
		restarts++
	})
	t.Logf("PostgreSQL killed and restarted %d times", restarts)
}
