package pgtest_test

import (
	"os"
	"testing"

	"github.com/lendingapi/lending-go/internal/pgtest"
	"github.com/stretchr/testify/require"
)

// What is committed survives the end of the server, also at once.
func TestClusterRestarts(t *testing.T) {
	cluster := pgtest.Run(t)
	_, err := cluster.Database(t.Name() + "/of a test with a name as long as names of tests are in practice")
	require.NoError(t, err)
	require.NoError(t, cluster.Do("postgres", "CREATE TABLE kept (n int); INSERT INTO kept VALUES (1)"))
	require.NoError(t, cluster.Restart())
	require.NoError(t, cluster.Do("postgres", "UPDATE kept SET n = 1 / n"))
	cluster.Stop()
	require.Error(t, cluster.Do("postgres", "SELECT 1"))
	require.NoError(t, cluster.Start())
	require.NoError(t, cluster.Do("postgres", "DELETE FROM kept WHERE n = 1"))
	require.Error(t, cluster.Do("postgres", "SELECT 1 / count(*) FROM kept"))
	socket := cluster.Socket()
	require.FileExists(t, socket)
	cluster.Close()
	_, err = os.Stat(socket)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestClusterThatDoesNotStart(t *testing.T) {
	cluster := pgtest.Run(t)
	cluster.Stop()
	_, err := pgtest.New("no_such_setting=1")
	require.ErrorContains(t, err, "no_such_setting")
	t.Setenv(pgtest.Binaries, t.TempDir())
	_, err = pgtest.New()
	require.ErrorContains(t, err, "there are no initdb")
}
