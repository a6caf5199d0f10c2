package lendingpostgres_test

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

// shadowed replaces functions of PostgreSQL in a schema before pg_catalog: with a clock at which
// every lease has ended, and with failures.
const shadowed = `
CREATE SCHEMA evil;
GRANT USAGE ON SCHEMA evil TO PUBLIC;
CREATE FUNCTION evil.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$ SELECT 'infinity'::timestamptz $$;
CREATE FUNCTION evil.statement_timestamp() RETURNS timestamptz LANGUAGE sql AS $$ SELECT 'infinity'::timestamptz $$;
CREATE FUNCTION evil.starts_with(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT false';
CREATE FUNCTION evil.set_config(text, text, boolean) RETURNS text LANGUAGE sql AS 'SELECT (1/0)::text';
CREATE FUNCTION evil.current_setting(text) RETURNS text LANGUAGE sql AS 'SELECT (1/0)::text';
CREATE FUNCTION evil.pg_notify(text, text) RETURNS void LANGUAGE sql AS 'SELECT 1/0; SELECT NULL';
CREATE FUNCTION evil.date_trunc(text, timestamptz) RETURNS timestamptz LANGUAGE sql AS 'SELECT NULL::timestamptz';
CREATE FUNCTION evil.to_regclass(text) RETURNS regclass LANGUAGE sql AS 'SELECT NULL::regclass'`

// shadow makes the sessions of a pool find these functions first.
func shadow(t *testing.T, pool *pgxpool.Pool) func(*pgxpool.Config) {
	t.Helper()
	_, err := pool.Exec(t.Context(), shadowed)
	require.NoError(t, err)
	return func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["search_path"] = "evil, pg_catalog, public" }
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
