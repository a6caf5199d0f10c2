package lendingpostgres

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go/idempotency/store"
)

// Tx is a transaction of the caller's: a [pgx.Tx], or a [pgx.Conn] on which one was begun.
type Tx interface {
	// Exec is what pgx has.
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// Outbox holds the keys of mutations that are to be sent, written down in transactions of
// the caller's: see [IdempotencyStore.Outbox]. It sends nothing itself.
type Outbox struct{ entries *IdempotencyStore }

// Outbox returns the outbox of the mutations in s. The key of the first mutation of an order
// is committed with the order, or not at all:
//
//	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
//		if _, err := tx.Exec(ctx, "INSERT INTO orders ..."); err != nil {
//			return err
//		}
//		return store.Outbox().Add(ctx, tx, "order-42/create-customer")
//	})
//
// The process that has committed sends the mutation then, with the same key. If it dies
// before, another process finds the key with [Outbox.Pending]. Do not send a mutation within
// the transaction: a rollback would forget it.
//
// A log with a Namespace needs its Namespace in [IdempotencyStoreOptions].
func (s *IdempotencyStore) Outbox() *Outbox { return &Outbox{s} }

// stored returns how the key stands in the log.
func (s *IdempotencyStore) stored(key string) string { return s.namespace + ":" + key }

// Add writes the key of a mutation down in tx. A key that is there already stays as it is. It
// leaves the outbox when the mutation is done.
func (o *Outbox) Add(ctx context.Context, tx Tx, key string) error {
	if !isKey(key) {
		return argumentError("key", "must be UTF-8 of 1 to 256 bytes without control characters")
	}
	s := o.entries
	with := func(sql string) statement { return statement{s.sql(sql), []any{s.name, s.stored(key)}} }
	const insert = "INSERT INTO {outbox} (name, key) VALUES ($1, $2)"
	_, err := insertTx(ctx, tx, with(addToOutbox), with(insert+" ON CONFLICT DO NOTHING"), with(insert))
	return err
}

const addToOutbox = atReadCommitted + `inserted AS (
	INSERT INTO {outbox} (name, key) SELECT $1, $2 FROM level WHERE sees ON CONFLICT DO NOTHING RETURNING 1)` + elseTwoRows

// isKey is the rule of lending.WithIdempotencyKey: with another key the mutation could never
// be sent.
func isKey(key string) bool {
	odd := func(r rune) bool { return r < ' ' || r == 0x7f || r == utf8.RuneError }
	return key != "" && len(key) <= 256 && utf8.ValidString(key) && !strings.ContainsFunc(key, odd)
}

// Cancel takes the key out of the outbox in tx. It does not keep anybody from sending the
// mutation.
func (o *Outbox) Cancel(ctx context.Context, tx Tx, key string) error {
	return o.exec(ctx, tx, "DELETE FROM {outbox} WHERE name = $1 AND key = $2", key)
}

func (o *Outbox) exec(ctx context.Context, tx Tx, statement, key string) error {
	s := o.entries
	_, err := tx.Exec(ctx, s.sql(statement), s.name, s.stored(key))
	return err
}

// Pending is a mutation that is to be sent, and is not done.
type Pending struct {
	Key   string
	Age   time.Duration // since Add, by the clock of the server
	State store.State   // how far it has come; "" if nobody has begun with it
}

// What is done is deleted: the log knows it for ever.
const pending = `
WITH over AS (
	DELETE FROM {outbox} o USING {idempotency} e
	WHERE o.name = $1::text AND e.name = o.name AND e.key = o.key AND e.state IN ('done', 'forgotten')
)
SELECT o.key, greatest(pg_catalog.clock_timestamp() - o.added_at, '0'), coalesce(e.state, '')
FROM {outbox} o LEFT JOIN {idempotency} e ON e.name = o.name AND e.key = o.key
WHERE o.name = $1::text AND pg_catalog.starts_with(o.key, $2) AND (e.state IS NULL OR e.state NOT IN ('done', 'forgotten'))
ORDER BY coalesce(e.state, '') = 'needs_review', greatest(o.added_at, e.saved_at), o.key LIMIT $3::bigint`

// Pending returns the mutations that are not done, at most limit, first those for which
// nothing has happened for the longest time. Those that need a review come last. Call it now
// and then, in any one of the processes, to go on with the mutations of a process that died.
// It deletes the keys of those that are done.
func (o *Outbox) Pending(ctx context.Context, limit int) (mutations []Pending, err error) {
	s := o.entries
	if limit <= 0 {
		return nil, argumentError("limit", "must be positive")
	}
	err = s.retry(ctx, func(conn *pgxpool.Conn) error {
		rows, err := conn.Query(ctx, s.sql(pending), s.name, s.stored(""), limit)
		if err != nil {
			return err
		}
		mutations, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (p Pending, err error) {
			err = row.Scan(&p.Key, &p.Age, &p.State)
			p.Key = strings.TrimPrefix(p.Key, s.stored(""))
			return p, err
		})
		return err
	})
	return mutations, err
}
