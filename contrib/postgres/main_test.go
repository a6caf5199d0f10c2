//go:build unix

package lendingpostgres_test

import (
	"context"
	"flag"
	"os"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/onboardingtest"
	"github.com/lendingapi/lending-go/internal/test/webhooktest"

	lendingpostgres "github.com/lendingapi/lending-go/contrib/postgres"
)

func TestMain(m *testing.M) {
	if replica() {
		return
	}
	if code, isWorker := onboardingtest.Worker(openForWorker); isWorker {
		os.Exit(code)
	}
	skipExamples()
	_, _ = flag.Set("events", "600"), flag.Set("kills", "6") // unless the command line says otherwise
	code := webhooktest.Main(m, openStore)
	endShared()
	os.Exit(code)
}

// openForWorker opens the store of a process in the kill test of the log.
func openForWorker(url string) (store.Store, func() error, error) {
	pool, err := pgxpool.New(context.Background(), url)
	if err != nil {
		return nil, nil, err
	}
	return must(lendingpostgres.NewIdempotencyStore(pool, "test", nil)), func() error { pool.Close(); return nil }, nil
}
