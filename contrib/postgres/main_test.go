package postgres_test

import (
	"context"
	"encoding/json"
	"os"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/contrib/postgres"
	"github.com/lendingapi/lending-go/internal/onboardingtest"
	"github.com/lendingapi/lending-go/internal/pgtest"
)

func TestMain(m *testing.M) {
	if text := os.Getenv("LENDING_REPLICA"); text != "" {
		var settings replicaSettings
		if err := json.Unmarshal([]byte(text), &settings); err != nil {
			panic(err)
		}
		runReplica(settings)
		return
	}
	if code, isWorker := onboardingtest.Worker(openForWorker); isWorker {
		os.Exit(code)
	}
	pgtest.SkipExamples()
	code := m.Run()
	endShared()
	os.Exit(code)
}

// openForWorker opens what a process has that the kill test of the journal starts.
func openForWorker(url string) (lending.JournalStore, func() error, error) {
	pool, err := pgxpool.New(context.Background(), url)
	if err != nil {
		return nil, nil, err
	}
	return postgres.NewJournalStore(pool, "test"), func() error { pool.Close(); return nil }, nil
}
