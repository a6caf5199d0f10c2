package lendingpostgres

import (
	"context"
	"embed"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migration is a step of [Migrate].
type Migration struct {
	Version int    // from 1
	Name    string // what it is about
	SQL     string // statements, with the names of the options in them
}

// Migrations returns what [Migrate] does, in the order in which it does it, for those who
// have a tool of their own for this: it is that or Migrate, as Migrate knows only of what it
// has done itself. The schema must be there, and there is no table of migrations. What has
// been released does not change: a new version adds to the end.
func Migrations(tables *Tables) ([]Migration, error) {
	p, err := tables.place()
	if err != nil {
		return nil, err
	}
	files, err := migrations.ReadDir("migrations")
	if err != nil {
		return nil, err
	}
	all := make([]Migration, len(files)) // sorted by name
	for i, file := range files {
		text, err := migrations.ReadFile("migrations/" + file.Name())
		if err != nil {
			return nil, err
		}
		number, name, _ := strings.Cut(strings.TrimSuffix(file.Name(), ".sql"), "_")
		version, err := strconv.Atoi(number)
		if err != nil || version != i+1 {
			return nil, fmt.Errorf("lendingpostgres: migration %s has no version, or not the next", file.Name())
		}
		all[i] = Migration{version, strings.ReplaceAll(name, "_", " "), p.sql(string(text))}
	}
	return all, nil
}

// Migrate makes the tables, and changes them when a new version of this package needs that.
// It can be called at every start, and by many replicas at once. All of it is one
// transaction, which others wait for.
//
// The role needs the right to create in the schema, and in the database if the schema is not
// there; and none where nothing is to be done, as for replicas that start after an
// administrator has called it.
func Migrate(ctx context.Context, pool *pgxpool.Pool, tables *Tables) error {
	all, err := Migrations(tables)
	if err != nil {
		return err
	}
	p, _ := tables.place()
	if done, err := p.version(ctx, pool); err != nil || done >= len(all) {
		return err
	}
	// A snapshot of before the lock would not show what the others have done.
	return pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		// Of the transaction, so that a pooler between does not matter.
		if _, err := tx.Exec(ctx, "SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended($1, 0))", p.table("migration")); err != nil {
			return err
		}
		if err := p.begin(ctx, tx); err != nil {
			return err
		}
		var done int // now that nobody else changes it
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

// version returns which migration was done last, 0 for none.
func (p place) version(ctx context.Context, pool *pgxpool.Pool) (version int, err error) {
	var there bool
	if err := pool.QueryRow(ctx, "SELECT pg_catalog.to_regclass($1) IS NOT NULL", p.table("migration")).Scan(&there); err != nil || !there {
		return 0, err
	}
	err = pool.QueryRow(ctx, p.sql(lastVersion)).Scan(&version)
	return version, err
}

// begin makes what Migrate itself needs. CREATE SCHEMA asks for the right also where there
// is one.
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
