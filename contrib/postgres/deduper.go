package lendingpostgres

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go/internal/handover"
	"github.com/lendingapi/lending-go/webhook"
)

// Deduper is a [webhook.Deduper] in a table, for several processes. Each Claim deletes up to
// four expired keys.
//
// While PostgreSQL cannot be reached, no key can be claimed, and the receiver answers with a
// failure.
type Deduper struct {
	database
	name    string
	options webhook.DeduperOptions
}

var _ webhook.Deduper = (*Deduper)(nil)

// DeduperOptions change a [Deduper]. A nil pointer and zero fields mean the defaults.
type DeduperOptions struct {
	Tables
	webhook.DeduperOptions
}

// NewDeduper returns a deduper. Dedupers with different names are independent.
func NewDeduper(pool *pgxpool.Pool, name string, options *DeduperOptions) (*Deduper, error) {
	var o DeduperOptions
	if options != nil {
		o = *options
	}
	d, err := open(pool, &o.Tables)
	if err != nil {
		return nil, err
	}
	return &Deduper{d, name, o.WithDefaults()}, nil
}

// A second claim of the same owner is a retry after a lost response, and succeeds.
const claimKey = `
WITH forgotten AS (
	DELETE FROM {deduper} WHERE ctid = ANY (ARRAY(
		SELECT ctid FROM {deduper} WHERE ends < pg_catalog.statement_timestamp() AND (name, key) <> ($1::text, $2::bytea)
		ORDER BY ends LIMIT 4 FOR UPDATE SKIP LOCKED))
)
INSERT INTO {deduper} AS kept (name, key, owner, done, ends) VALUES ($1::text, $2::bytea, $3::text, false, pg_catalog.clock_timestamp() + $4::interval)
ON CONFLICT (name, key) DO UPDATE SET owner = excluded.owner, done = false, ends = pg_catalog.clock_timestamp() + $4::interval
WHERE kept.ends <= pg_catalog.clock_timestamp() OR kept.owner = excluded.owner AND NOT kept.done`

// Claim implements [webhook.Deduper]. If ctx ends first, Claim returns at once, and the key is
// released when PostgreSQL has answered.
func (d *Deduper) Claim(ctx context.Context, key string) (webhook.Claim, error) {
	hash := sha256.Sum256([]byte(key)) // a key may have any bytes and any length
	c := &claim{d, hash[:], rand.Text()}
	if err := handover.Take(ctx, c.take, c.Release); err != nil {
		return nil, err
	}
	return c, nil
}

type claim struct {
	deduper *Deduper
	key     []byte
	owner   string
}

func (c *claim) take(ctx context.Context) error {
	d := c.deduper
	return d.retry(ctx, func(conn *pgxpool.Conn) error {
		tag, err := conn.Exec(ctx, d.sql(claimKey), d.name, c.key, c.owner, d.options.Lease)
		if err != nil || tag.RowsAffected() > 0 {
			return err
		}
		var done bool
		err = conn.QueryRow(ctx, d.sql("SELECT done FROM {deduper} WHERE name = $1 AND key = $2"), d.name, c.key).Scan(&done)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return errAgain // another claim was released in between
		case err == nil && done:
			return webhook.ErrDuplicate
		case err == nil:
			return webhook.ErrClaimed
		}
		return err
	})
}

const keyDone = `
INSERT INTO {deduper} (name, key, owner, done, ends) VALUES ($1, $2, $3, true, pg_catalog.clock_timestamp() + $4::interval)
ON CONFLICT (name, key) DO UPDATE SET owner = excluded.owner, done = true, ends = excluded.ends`

func (c *claim) Done(ctx context.Context) error {
	d := c.deduper
	return d.retry(ctx, func(conn *pgxpool.Conn) error {
		_, err := conn.Exec(ctx, d.sql(keyDone), d.name, c.key, c.owner, d.options.Keep)
		return err
	})
}

const releaseKey = "DELETE FROM {deduper} WHERE name = $1 AND key = $2 AND owner = $3 AND NOT done"

func (c *claim) Release(ctx context.Context) error {
	d := c.deduper
	return d.retry(ctx, func(conn *pgxpool.Conn) error {
		_, err := conn.Exec(ctx, d.sql(releaseKey), d.name, c.key, c.owner)
		return err
	})
}
