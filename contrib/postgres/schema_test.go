package lendingpostgres_test

import (
	"context"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go/internal/test/webhooktest"
	"github.com/lendingapi/lending-go/webhook"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// shadowed replaces functions of PostgreSQL in a schema before pg_catalog: with a clock at which
// every lease has ended, and with failures. It also creates operators in the schema public, where
// in many databases every role may create them: PostgreSQL calls such an operator if pg_catalog has
// none for exactly the same types. Nobody can replace a cast: that takes the owner of a type.
const shadowed = `
CREATE SCHEMA evil;
GRANT USAGE ON SCHEMA evil TO PUBLIC;
CREATE FUNCTION evil.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$ SELECT 'infinity'::timestamptz $$;
CREATE FUNCTION evil.statement_timestamp() RETURNS timestamptz LANGUAGE sql AS $$ SELECT 'infinity'::timestamptz $$;
CREATE FUNCTION evil.starts_with(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT false';
CREATE FUNCTION evil.set_config(text, text, boolean) RETURNS text LANGUAGE sql AS 'SELECT (1/0)::text';
CREATE FUNCTION evil.date_trunc(text, timestamptz) RETURNS timestamptz LANGUAGE sql AS 'SELECT NULL::timestamptz';
CREATE FUNCTION evil.to_regclass(text) RETURNS regclass LANGUAGE sql AS 'SELECT NULL::regclass';
DO $$
DECLARE l regtype; r regtype; op text;
	types CONSTANT regtype[] := '{bigint,integer,smallint,numeric,float8,text,varchar,bytea,
		timestamptz,timestamp,date,interval,boolean}';
BEGIN
	FOREACH l IN ARRAY types LOOP FOREACH r IN ARRAY types LOOP
		EXECUTE format('CREATE FUNCTION public.stolen(%s, %s) RETURNS boolean LANGUAGE plpgsql AS
			''BEGIN RAISE EXCEPTION ''''an operator of another role: %s, %s''''; END''', l, r, l, r);
		FOREACH op IN ARRAY '{+,-,*,/,%,=,<>,<,>,<=,>=,||}'::text[] LOOP
			IF NOT EXISTS (SELECT FROM pg_operator WHERE oprname = op AND oprleft = l AND oprright = r
				AND oprnamespace = 'pg_catalog'::regnamespace) THEN
				EXECUTE format('CREATE OPERATOR public.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = public.stolen)', op, l, r);
			END IF;
		END LOOP;
	END LOOP; END LOOP;
END $$`

// shadow makes the sessions of a pool find these functions and operators.
func shadow(t *testing.T, pool *pgxpool.Pool) func(*pgxpool.Config) {
	t.Helper()
	_, err := pool.Exec(t.Context(), shadowed)
	require.NoError(t, err)
	return func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["search_path"] = "evil, pg_catalog, public" }
}

// WorkTx and PutTx call no operator of another role either; the other statements pass the suites of
// storetest.
func TestTransactionsCallNoOperatorOfOthers(t *testing.T) {
	t.Parallel()
	url := withEffects(t, database(t))
	inbox := inboxOf(connect(t, url, shadow(t, connect(t, url))), nil)
	pool := connect(t, url)
	require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		return inbox.PutTx(t.Context(), tx, event("a"))
	}))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	inbox.WorkTx(ctx, func(context.Context, pgx.Tx, *webhook.Event) error { return nil },
		&webhook.WorkOptions{Observe: func(r webhook.Result) {
			assert.NoError(t, r.Err)
			cancel()
		}})
	webhooktest.WantCounts(t, inbox, webhook.InboxCounts{})
}

var (
	called   = regexp.MustCompile(`([\w.]+)\(`)
	keywords = "and any array coalesce exists extract filter greatest in key least select values"
	inSQL    = regexp.MustCompile("(?s)`[^`]*`|\"[^\"\n]*\"")
)

// Every statement calls functions with their schema, so the search path does not matter.
func TestFunctionsAreCalledByTheirSchema(t *testing.T) {
	files, err := fs.Glob(os.DirFS("."), "*.go")
	require.NoError(t, err)
	migrations, err := fs.Glob(os.DirFS("."), "migrations/*.sql")
	require.NoError(t, err)
	statements := 0
	for _, file := range append(files, migrations...) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		texts := []string{string(text)}
		if strings.HasSuffix(file, "_test.go") {
			continue
		} else if strings.HasSuffix(file, ".go") {
			texts = inSQL.FindAllString(string(text), -1)
		}
		for _, sql := range texts {
			if !regexp.MustCompile(`\b(SELECT|INSERT|UPDATE|DELETE|CREATE|VALUES)\b`).MatchString(sql) {
				continue
			}
			statements++
			for _, name := range called.FindAllStringSubmatch(sql, -1) {
				if !strings.Contains(" "+keywords+" ", " "+strings.ToLower(name[1])+" ") {
					require.True(t, strings.HasPrefix(name[1], "pg_catalog."), "%s: %s in %s", file, name[1], sql)
				}
			}
		}
	}
	require.Greater(t, statements, 20)
}
