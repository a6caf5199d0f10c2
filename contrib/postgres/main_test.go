//go:build unix

package lendingpostgres_test

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/fleettest"
	"github.com/lendingapi/lending-go/internal/test/onboardingtest"
	"github.com/lendingapi/lending-go/internal/test/pgtest"
	"github.com/lendingapi/lending-go/internal/test/webhooktest"

	lendingpostgres "github.com/lendingapi/lending-go/contrib/postgres"
)

func TestMain(m *testing.M) {
	if fleettest.Replica(openForReplica) {
		return
	}
	if code, isWorker := onboardingtest.Worker(openForWorker); isWorker {
		os.Exit(code)
	}
	pgtest.SkipExamples()
	_, _ = flag.Set("events", "600"), flag.Set("kills", "6") // unless the command line says otherwise
	code := webhooktest.Main(m, openStore)
	endShared()
	os.Exit(code)
}

// fleetVariable is the number of concurrent workers in the kill test of the log.
const fleetVariable = "LENDING_TEST_FLEET"

// openForWorker opens the store of a process in the kill test of the log. The first process of a
// fleet starts the others, which end soon after it.
func openForWorker(url string) (store.Store, func() error, error) {
	others, _ := strconv.Atoi(os.Getenv(fleetVariable))
	for range others - 1 {
		other := exec.Command(os.Args[0], "-test.run=^$")
		other.Env = append(os.Environ(), fleetVariable+"=")
		if _, err := other.StdinPipe(); err != nil {
			return nil, nil, err
		}
		if err := other.Start(); err != nil {
			return nil, nil, err
		}
	}
	pool, err := pgxpool.New(context.Background(), url)
	if err != nil {
		return nil, nil, err
	}
	return must(lendingpostgres.NewIdempotencyStore(pool, "test", nil)), func() error { pool.Close(); return nil }, nil
}
