package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/contrib/postgres"
	"github.com/lendingapi/lending-go/lendingtest/storetest"
	"github.com/stretchr/testify/require"
)

// settings under which every store keeps its contract.
var settings = map[string]func(*pgxpool.Config){
	"prepared statements": func(*pgxpool.Config) {},
	"behind a pooler":     pooled,
	"simple protocol":     func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol },
	"serializable": func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable"
	},
}

// contracts holds the stores of a pool to their contracts, those that are open at the same
// time with one of their own each, as processes have.
func contracts(t *testing.T, open func(t *testing.T) *pgxpool.Pool, opts ...postgres.Option) {
	t.Helper()
	t.Run("TokenStore", func(t *testing.T) {
		storetest.TokenStore(t, func(t *testing.T) func() lending.TokenStore {
			return func() lending.TokenStore { return postgres.NewTokenStore(open(t), t.Name(), opts...) }
		})
	})
	t.Run("Deduper", func(t *testing.T) {
		storetest.Deduper(t, func(t *testing.T, times lending.DeduperOptions) func() lending.Deduper {
			return func() lending.Deduper { return postgres.NewDeduper(open(t), t.Name(), times, opts...) }
		})
	})
	t.Run("JournalStore", func(t *testing.T) {
		storetest.JournalStore(t, func(t *testing.T) func() lending.JournalStore {
			return func() lending.JournalStore { return postgres.NewJournalStore(open(t), t.Name(), opts...) }
		})
	})
}

func TestStoresKeepTheirContracts(t *testing.T) {
	for name, change := range settings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := database(t)
			require.NoError(t, postgres.Migrate(t.Context(), connect(t, url)))
			contracts(t, func(t *testing.T) *pgxpool.Pool { return connect(t, url, change) })
		})
	}
}
