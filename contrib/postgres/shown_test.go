package lendingpostgres_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/shown"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	lendingpostgres "github.com/lendingapi/lending-go/contrib/postgres"
)

// TestWhatIsAliveCanBePrinted prints and compares stores while they work. A print without a lock
// would be a data race, which the detector reports. A print of the pool would show its password.
func TestWhatIsAliveCanBePrinted(t *testing.T) {
	pool := migrated(t, func(c *pgxpool.Config) { c.ConnConfig.Password = "hush" })
	s := storesOf(pool)
	inbox := inboxOf(pool, nil)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()

	alive := []any{s.token, s.idempotency, inbox}
	assert.NotContains(t, shown.Beside(t, alive, func(ctx context.Context) {
		_ = inbox.Put(ctx, event(lending.EventName(rand.Text())))
		_, _ = inbox.Take(ctx)
		_, _ = s.idempotency.Load(ctx, "key")
		_, _ = s.token.Acquire(ctx, rand.Text(), time.Millisecond)
	}), "hush")
}

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
