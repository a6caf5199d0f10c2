package lendingpostgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go/webhook"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	lendingpostgres "github.com/lendingapi/lending-go/contrib/postgres"
)

// Settings of a WorkTx function end with its transaction. The next user of the connection finds
// the settings of a new connection.
func TestWorkTxLeavesNoSetting(t *testing.T) {
	url := database(t)
	admin := connect(t, url)
	require.NoError(t, lendingpostgres.Migrate(t.Context(), admin, nil))
	for _, tt := range []struct {
		name      string
		set       string
		commits   bool // by itself, before it fails
		afterward string
	}{
		{"SET", "SET search_path = evil, public", false, "SHOW search_path"},
		{"SET of a setting of the connection string", "SET TimeZone = 'Asia/Tokyo'", false, "SHOW TimeZone"},
		{"SET of a setting of AfterConnect", "SET statement_timeout = '1s'", false, "SHOW statement_timeout"},
		{
			"set_config", "SELECT set_config('app.tenant', '7', false)", false,
			"SELECT coalesce(current_setting('app.tenant', true), '')",
		},
		{"SET ROLE", "SET ROLE pg_monitor", false, "SELECT current_user"},
		{"SET SESSION AUTHORIZATION", "SET SESSION AUTHORIZATION pg_monitor", false, "SELECT session_user"},
		{"SET and COMMIT before a failure", "SET search_path = evil, public; COMMIT", true, "SHOW search_path"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			open := func(pool *pgxpool.Pool) *lendingpostgres.Inbox {
				inbox, err := lendingpostgres.NewInbox(pool, t.Name(), nil)
				require.NoError(t, err)
				return inbox
			}
			pool := connect(t, url, func(c *pgxpool.Config) {
				c.MaxConns = 1
				c.ConnConfig.RuntimeParams["TimeZone"] = "Europe/Zurich"
				c.ConnConfig.RuntimeParams["search_path"] = `public, "Another schema"`
				c.ConnConfig.RuntimeParams["application_name"] = `it's \ quoted`
				c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
					_, err := conn.Exec(ctx, "SET statement_timeout = '17s'")
					return err
				}
			})
			session := func() (value, name string, pid int) {
				require.NoError(t, pool.QueryRow(t.Context(), tt.afterward).Scan(&value))
				require.NoError(t, pool.QueryRow(t.Context(),
					"SELECT current_setting('application_name'), pg_backend_pid()").
					Scan(&name, &pid))
				return value, name, pid
			}
			want, wantName, wantPID := session()
			require.NoError(t, open(admin).Put(t.Context(), event("a")))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			open(pool).WorkTx(ctx, func(ctx context.Context, tx pgx.Tx, _ *webhook.Event) error {
				defer cancel()
				_, err := tx.Exec(ctx, tt.set)
				assert.NoError(t, err)
				if tt.commits {
					return context.Canceled
				}
				return err
			}, nil)
			value, name, pid := session()
			assert.Equal(t, want, value)
			assert.Equal(t, wantName, name)
			assert.Equal(t, wantPID, pid, "the connection is kept")
		})
	}
}
