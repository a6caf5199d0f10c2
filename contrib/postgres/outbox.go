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

// Tx is a transaction of the caller: a [pgx.Tx], or a [pgx.Conn] inside a transaction.
type Tx interface {
	// Exec is the method of pgx.
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// Outbox holds the keys of mutations to send. Transactions of the caller add the keys: see
// [IdempotencyStore.Outbox]. The outbox itself sends nothing.
type Outbox struct{ entries *IdempotencyStore }

// Outbox returns the outbox of the mutations in s. Commit the key of an order's first mutation
// together with the order:
//
//	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
//		if _, err := tx.Exec(ctx, "INSERT INTO orders ..."); err != nil {
//			return err
//		}
//		return store.Outbox().Add(ctx, tx, "order-42/create-customer")
//	})
//
// After the commit the process sends the mutation with the same key. If the process dies first,
// another process finds the key with [Outbox.Pending]. Do not send a mutation inside the
// transaction: a rollback would forget the key.
//
// If the log has a Namespace, set the same Namespace in [IdempotencyStoreOptions].
func (s *IdempotencyStore) Outbox() *Outbox { return &Outbox{s} }

// stored returns the key with the namespace, as in the log.
func (s *IdempotencyStore) stored(key string) string { return s.namespace + ":" + key }

// Add adds the key of a mutation to the outbox, in tx. Add changes nothing if the outbox already
// contains the key. The key leaves the outbox when the mutation is done.
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

// isKey implements the rule of lending.WithIdempotencyKey. A mutation with another key could
// never be sent.
func isKey(key string) bool {
	odd := func(r rune) bool { return r < ' ' || r == 0x7f || r == utf8.RuneError }
	return key != "" && len(key) <= 256 && utf8.ValidString(key) && !strings.ContainsFunc(key, odd)
}

// Cancel removes the key from the outbox, in tx. Another process may still send the mutation.
func (o *Outbox) Cancel(ctx context.Context, tx Tx, key string) error {
	return o.exec(ctx, tx, "DELETE FROM {outbox} WHERE name = $1 AND key = $2", key)
}

func (o *Outbox) exec(ctx context.Context, tx Tx, statement, key string) error {
	s := o.entries
	_, err := tx.Exec(ctx, s.sql(statement), s.name, s.stored(key))
	return err
}

// Pending is a mutation in the outbox that is not done.
type Pending struct {
	Key   string
	Age   time.Duration // since Add, by the clock of the server
	State store.State   // state in the log; "" if no process has begun with the mutation
}

// Finished mutations leave the outbox. The log remembers them.
const pending = `
WITH over AS (
	DELETE FROM {outbox} o USING {idempotency} e
	WHERE o.name = $1::text AND e.name = o.name AND e.key = o.key AND e.state IN ('done', 'forgotten')
)
SELECT o.key, greatest(pg_catalog.clock_timestamp() - o.added_at, '0'), coalesce(e.state, '')
FROM {outbox} o LEFT JOIN {idempotency} e ON e.name = o.name AND e.key = o.key
WHERE o.name = $1::text AND pg_catalog.starts_with(o.key, $2) AND (e.state IS NULL OR e.state NOT IN ('done', 'forgotten'))
ORDER BY coalesce(e.state, '') = 'needs_review', greatest(o.added_at, e.saved_at), o.key LIMIT $3::bigint`

// Pending returns at most limit mutations that are not done. The mutation with the longest time
// since its last change comes first; mutations in needs_review come last. Call Pending now and
// then, in any process, to continue the mutations of processes that died. Pending deletes the
// keys of finished mutations.
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
