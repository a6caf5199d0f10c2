package lendingpostgres

import (
	"context"
	"embed"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go/internal/backoff"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migration is a step of [Migrate].
type Migration struct {
	Version int    // from 1
	Name    string // the tables of the step
	SQL     string // statements with the schema of [Tables]
}

// Migrations returns the steps of [Migrate] in their order, for a migration tool of your own.
// Use either that tool or Migrate: Migrate knows only its own steps. The schema must exist, and
// no table of migrations is created. A released step does not change; a new version of this
// package only appends steps.
func Migrations(tables *Tables) ([]Migration, error) {
	p, err := tables.place()
	if err != nil {
		return nil, err
	}
	files, err := migrations.ReadDir("migrations")
	if err != nil {
		return nil, err
	}
	all := make([]Migration, len(files)) // ReadDir sorts by name
	for i, file := range files {
		text, err := migrations.ReadFile("migrations/" + file.Name())
		if err != nil {
			return nil, err
		}
		number, name, _ := strings.Cut(strings.TrimSuffix(file.Name(), ".sql"), "_")
		version, err := strconv.Atoi(number)
		if err != nil || version != i+1 {
			return nil, fmt.Errorf("lendingpostgres: migration %s has no version, or not the next; rename the file", file.Name())
		}
		all[i] = Migration{version, strings.ReplaceAll(name, "_", " "), p.sql(string(text))}
	}
	return all, nil
}

// Migrate creates the tables, and changes them when a new version of this package needs that.
// Every replica can call Migrate at every start. All steps run in a transaction, and concurrent
// calls wait for each other.
//
// The role needs the right to create tables in the schema, and to create the schema if there is
// none. No such right is needed if all steps are done, for example by an administrator.
//
// If another transaction has locked a table, for example a backup, Migrate gives up its own locks
// after a second, so that the stores can go on, and tries again for half a minute.
func Migrate(ctx context.Context, pool *pgxpool.Pool, tables *Tables) error {
	all, err := Migrations(tables)
	if err != nil {
		return err
	}
	p, _ := tables.place()
	if done, err := p.version(ctx, pool); err != nil || done >= len(all) {
		return err
	}
	ending, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var locked error
	for try := 1; ; try++ {
		err := p.migrate(ctx, pool, all)
		state := stateOf(err)
		if state == lockTimedOut {
			locked = fmt.Errorf("%w; end the transaction that has locked the table (pg_blocking_pids finds it), then call Migrate again", err)
			_ = backoff.Sleep(ending, backoff.Doubled(try, 100*time.Millisecond, 5*time.Second))
		}
		switch {
		case err == nil:
			return nil
		case locked != nil && (ctx.Err() != nil || state == lockTimedOut && ending.Err() != nil):
			return locked
		case state == notPermitted:
			return fmt.Errorf("%w; call Migrate with a role that may create tables in the schema", err)
		case state != lockTimedOut:
			return err
		}
	}
}

const lockTimedOut, notPermitted = "55P03", "42501" // SQLSTATE

// migrate runs the steps that are not done, in a transaction.
func (p place) migrate(ctx context.Context, pool *pgxpool.Pool, all []Migration) error {
	// A snapshot from before the lock would not show the steps of the other processes.
	return pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		// A lock of the transaction works through a pooler.
		if _, err := tx.Exec(ctx, "SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended($1, 0))", p.table("migration")); err != nil {
			return err
		}
		// A statement that waits for a table would stop all later users of the table.
		if _, err := tx.Exec(ctx, "SET LOCAL lock_timeout = '1s'"); err != nil {
			return err
		}
		if err := p.begin(ctx, tx); err != nil {
			return fmt.Errorf("lendingpostgres: migrate: %w", err)
		}
		var done int // under the lock
		if err := tx.QueryRow(ctx, p.sql(lastVersion)).Scan(&done); err != nil {
			return err
		}
		for _, m := range all[min(done, len(all)):] {
			if _, err := tx.Exec(ctx, m.SQL); err != nil {
				return fmt.Errorf("lendingpostgres: migration %d, %s: %w", m.Version, m.Name, err)
			}
			if _, err := tx.Exec(ctx, p.sql("INSERT INTO {migration} (version) VALUES ($1)"), m.Version); err != nil {
				return err
			}
		}
		return nil
	})
}

const lastVersion = "SELECT coalesce(pg_catalog.max(version), 0) FROM {migration}"

// version returns the last finished step, or 0.
func (p place) version(ctx context.Context, pool *pgxpool.Pool) (version int, err error) {
	var there bool
	if err := pool.QueryRow(ctx, "SELECT pg_catalog.to_regclass($1) IS NOT NULL", p.table("migration")).Scan(&there); err != nil || !there {
		return 0, err
	}
	err = pool.QueryRow(ctx, p.sql(lastVersion)).Scan(&version)
	return version, err
}

// begin creates the schema and the table of migrations. CREATE SCHEMA IF NOT EXISTS would
// require the right to create schemas even if the schema exists.
func (p place) begin(ctx context.Context, tx pgx.Tx) error {
	if p.schema != "" {
		var there bool
		if err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1)", p.schema).Scan(&there); err != nil {
			return err
		}
		if !there {
			if _, err := tx.Exec(ctx, "CREATE SCHEMA "+pgx.Identifier{p.schema}.Sanitize()); err != nil {
				return err
			}
		}
	}
	_, err := tx.Exec(ctx, p.sql("CREATE TABLE IF NOT EXISTS {migration} (version integer PRIMARY KEY, done_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp())"))
	return err
}
