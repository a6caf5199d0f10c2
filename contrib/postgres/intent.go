package lendingpostgres

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/opaque"
)

// Tx is a transaction of the caller's: a [pgx.Tx], or a [pgx.Conn] on which one was begun.
type Tx interface {
	// Exec is what pgx has.
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// Intents are commands with a key that are noted in a transaction of the caller's: see
// [JournalStore.In].
type Intents struct {
	store *JournalStore
	tx    opaque.Value[Tx]
}

// In returns where the intent to send a command is noted in a transaction of the caller's, so
// that an order and its first command cannot part:
//
//	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
//		if _, err := tx.Exec(ctx, "INSERT INTO orders ..."); err != nil {
//			return err
//		}
//		return store.In(tx).Intend(ctx, "order-42/create-customer")
//	})
//
// The command is sent after the commit, with the same key, as any other: by who has committed,
// or when he died before it, by who finds it with [JournalStore.Intended]. It cannot be sent
// in the transaction: a rollback would forget that it was.
//
// A journal with a Namespace needs [WithNamespace].
func (s *JournalStore) In(tx Tx) *Intents { return &Intents{s, opaque.Hide(tx)} }

// stored returns how the key stands in the journal.
func (s *JournalStore) stored(key string) string { return s.namespace + ":" + key }

// Intend notes that the command of key is to be sent. It changes nothing if that is noted
// already. When the command is done the intent has ended.
func (i *Intents) Intend(ctx context.Context, key string) error {
	if !isKey(key) {
		return argumentError("key", "must be UTF-8 of 1 to 256 bytes without control characters")
	}
	s := i.store
	if s.err != nil {
		return s.err
	}
	with := func(sql string) statement { return statement{s.sql(sql), []any{s.name, s.stored(key)}} }
	const insert = "INSERT INTO {intent} (name, key) VALUES ($1, $2)"
	_, err := insertTx(ctx, i.tx(), with(intend), with(insert+" ON CONFLICT DO NOTHING"), with(insert))
	return err
}

const intend = atReadCommitted + `inserted AS (
	INSERT INTO {intent} (name, key) SELECT $1, $2 FROM level WHERE sees ON CONFLICT DO NOTHING RETURNING 1)` + elseTwoRows

// isKey is the rule of [lending.WithKey]: with another key the command could never be sent.
func isKey(key string) bool {
	odd := func(r rune) bool { return r < ' ' || r == 0x7f || r == utf8.RuneError }
	return key != "" && len(key) <= 256 && utf8.ValidString(key) && !strings.ContainsFunc(key, odd)
}

// GiveUp ends the intent without the command, which can be sent all the same.
func (i *Intents) GiveUp(ctx context.Context, key string) error {
	return i.exec(ctx, "DELETE FROM {intent} WHERE name = $1 AND key = $2", key)
}

func (i *Intents) exec(ctx context.Context, statement, key string) error {
	s := i.store
	if s.err != nil {
		return s.err
	}
	_, err := i.tx().Exec(ctx, s.sql(statement), s.name, s.stored(key))
	return err
}

// Intent is a command that is to be sent, and is not done.
type Intent struct {
	Key   string
	Age   time.Duration        // since it was noted, by the clock of the server
	State lending.CommandState // how far it has come; "" if nobody has begun with it
}

// What is done is deleted: the journal knows it for ever.
const intended = `
WITH over AS (
	DELETE FROM {intent} i USING {journal} j
	WHERE i.name = $1::text AND j.name = i.name AND j.key = i.key AND j.state IN ('done', 'forgotten')
)
SELECT i.key, greatest(pg_catalog.clock_timestamp() - i.noted_at, '0'), coalesce(j.state, '')
FROM {intent} i LEFT JOIN {journal} j ON j.name = i.name AND j.key = i.key
WHERE i.name = $1::text AND pg_catalog.starts_with(i.key, $2) AND (j.state IS NULL OR j.state NOT IN ('done', 'forgotten'))
ORDER BY coalesce(j.state, '') = 'undecided', greatest(i.noted_at, j.saved_at), i.key LIMIT $3::bigint`

// Intended returns the intents whose command is not done, at most limit, first those that
// nothing has happened to for the longest time. Call it now and then, in any one of the
// processes: it is to go on with what one has left that died, and it deletes what is over.
// What is undecided comes last. A call that fails before it is written down leaves its intent
// at the front.
func (s *JournalStore) Intended(ctx context.Context, limit int) (intents []Intent, err error) {
	if limit <= 0 {
		return nil, argumentError("limit", "must be positive")
	}
	err = s.retry(ctx, func(conn *pgxpool.Conn) error {
		rows, err := conn.Query(ctx, s.sql(intended), s.name, s.stored(""), limit)
		if err != nil {
			return err
		}
		intents, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (i Intent, err error) {
			err = row.Scan(&i.Key, &i.Age, &i.State)
			i.Key = strings.TrimPrefix(i.Key, s.stored(""))
			return i, err
		})
		return err
	})
	return intents, err
}
