//go:build unix

package lendingpostgres_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/lendingapi/lending-go/internal/test/pgtest"
	"github.com/stretchr/testify/require"
)

// Committed entries survive the end of the server, even an immediate end.
func TestClusterRestarts(t *testing.T) {
	t.Parallel()
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
	cluster.Close()
}

// A standby has the entries of its primary, and takes writes after the end of the primary.
func TestStandby(t *testing.T) {
	t.Parallel()
	primary := pgtest.Run(t)
	standby, err := primary.Standby()
	require.NoError(t, err)
	defer standby.Close()
	require.NoError(t, primary.Do("postgres", "CREATE TABLE kept (n int)"))
	require.Error(t, standby.Do("postgres", "CREATE TABLE other (n int)"))
	require.Eventually(t, func() bool { return standby.Do("postgres", "TABLE kept") == nil }, time.Minute,
		10*time.Millisecond)
	primary.Kill()
	require.NoError(t, standby.Do("postgres", "SELECT pg_promote()"))
	require.NoError(t, standby.Do("postgres", "INSERT INTO kept VALUES (1)"))
}

func TestClusterThatDoesNotStart(t *testing.T) {
	_, err := pgtest.New("no_such_setting=1")
	if errors.Is(err, pgtest.ErrMissing) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	require.ErrorContains(t, err, "no_such_setting")
	t.Setenv(pgtest.Binaries, t.TempDir())
	_, err = pgtest.New()
	require.ErrorContains(t, err, "there are no initdb")
}
