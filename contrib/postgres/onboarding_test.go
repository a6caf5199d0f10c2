package lendingpostgres_test

import (
	"testing"

	"github.com/lendingapi/lending-go/internal/test/onboardingtest"
	"github.com/lendingapi/lending-go/internal/test/pgtest"
	"github.com/stretchr/testify/require"

	lendingpostgres "github.com/lendingapi/lending-go/contrib/postgres"
)

// What a worker does with keys is done once, however often it is killed, and PostgreSQL with
// it. LENDING_TEST_FLEET=3 has three workers at a time, which are killed together.
func TestMutationsAreDoneOnceUnderKill(t *testing.T) {
	cluster := pgtest.Run(t)
	url := databaseIn(t, cluster)
	require.NoError(t, lendingpostgres.Migrate(t.Context(), connect(t, url), nil))
	restarts := 0
	onboardingtest.Kill(t, url, func() {
		require.NoError(t, cluster.Restart())
		restarts++
	})
	t.Logf("PostgreSQL killed and restarted %d times", restarts)
}
