package lendingpostgres_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	lendingpostgres "github.com/lendingapi/lending-go/contrib/postgres"
)

// The errors of a store contain no token, no response and no password.
func TestErrorsShowNothing(t *testing.T) {
	url := database(t)
	pool := connect(t, url, func(c *pgxpool.Config) { c.ConnConfig.Password = "hush" })
	require.NoError(t, lendingpostgres.Migrate(t.Context(), pool, nil))
	_, err := pool.Exec(t.Context(),
		`ALTER TABLE lending_idempotency ADD CHECK (state <> 'done'); ALTER TABLE lending_token ADD CHECK (fence <> 7)`)
	require.NoError(t, err)
	s := storesOf(pool)
	entry := sent("key", "")
	entry.State, entry.Data = store.Done, []byte("hush")
	failures := []error{s.idempotency.Save(t.Context(), entry), s.token.Save(t.Context(), stored(7, "hush"))}
	gone := connect(t, url+"_gone", func(c *pgxpool.Config) { c.ConnConfig.Password = "hush" })
	_, err = storesOf(gone).idempotency.Load(t.Context(), "key")
	for _, err := range append(failures, err) {
		require.Error(t, err)
		for _, verb := range []string{"%v", "%+v", "%q"} {
			assert.NotContains(t, fmt.Sprintf(verb, err), "hush")
		}
	}
}
