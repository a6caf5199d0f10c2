package lendingpostgres

import (
	"cmp"
	"context"
	"crypto/rand"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go/idempotency/store"
)

// IdempotencyStore is a [store.Store] in a table, for mutations with a key in the replicas of a
// program. Every change is a single statement.
//
// A mutation whose entry is lost can be sent twice: the package documentation names the settings
// of the server. Only Sweep and Forget of the log delete entries.
//
// The age of an entry is the time since the last Save by the server's clock, and 0 if the clock
// was set back. A clock that is set ahead, or a failover to a server with a clock ahead, makes
// entries older than they are. Keep the difference to a fraction of MaxLateness of the log.
type IdempotencyStore struct {
	database
	name string
}

var _ store.Store = (*IdempotencyStore)(nil)

// IdempotencyStoreOptions change an [IdempotencyStore]. A nil pointer and zero fields mean the
// defaults.
type IdempotencyStoreOptions struct {
	Tables
}

// NewIdempotencyStore returns a store. Stores with different names are independent. Responses
// are stored in plain text, with personal data: wrap the store in [store.NewEncrypted] to
// encrypt them.
func NewIdempotencyStore(pool *pgxpool.Pool, name string, options *IdempotencyStoreOptions) (*IdempotencyStore, error) {
	o := *cmp.Or(options, new(IdempotencyStoreOptions))
	d, err := open(pool, &o.Tables)
	if err != nil {
		return nil, err
	}
	return &IdempotencyStore{d, name}, nil
}

// Load implements [store.Store].
func (s *IdempotencyStore) Load(ctx context.Context, key string) (*store.Entry, error) {
	found, err := collect(ctx, s.database, scanEntry, "SELECT "+entryColumns+" FROM {idempotency} WHERE name = $1 AND key = $2", s.name, key)
	if len(found) == 0 {
		return nil, err
	}
	return &found[0], err
}

const entryColumns = "key, revision, state, lock, data, greatest(pg_catalog.clock_timestamp() - saved_at, '0'), saved_at"

func scanEntry(row pgx.CollectableRow) (e store.Entry, err error) {
	var at time.Time
	err = row.Scan(&e.Key, &e.Revision, &e.State, &e.Lock, &e.Data, &e.Age, &at)
	e.Position = store.PositionAt(uint64(max(0, at.UnixMicro())), e.Key)
	return e, err
}

const (
	insertEntry = `
INSERT INTO {idempotency} (name, key, revision, state, lock, data, saved_by, saved_at)
VALUES ($1, $2, $3::bigint + 1, $4, $5, $6, $7, pg_catalog.clock_timestamp()) ON CONFLICT DO NOTHING`
	updateEntry = `
UPDATE {idempotency} SET revision = revision + 1, state = $4, lock = $5, data = $6, saved_by = $7, saved_at = pg_catalog.clock_timestamp()
WHERE name = $1 AND key = $2 AND revision = $3`
	inTheWay = `
SELECT coalesce((SELECT revision FROM {idempotency} WHERE name = $1 AND key = $2), 0),
	EXISTS (SELECT FROM {idempotency} WHERE name = $1 AND key = $2 AND saved_by = $3),
	coalesce((SELECT key FROM {idempotency} WHERE name = $1 AND lock = $4 AND lock <> '' AND key <> $2), '')`
)

// Save implements [store.Store]. Save returns after the commit.
func (s *IdempotencyStore) Save(ctx context.Context, entry store.Entry) error {
	by := rand.Text()
	return s.retry(ctx, func(conn *pgxpool.Conn) error {
		if saved, err := s.save(ctx, conn, entry, by); saved || err != nil {
			return err
		}
		return s.refused(ctx, conn, entry, by)
	})
}

const replaceEntries = `
WITH wanted AS (
	SELECT * FROM ROWS FROM (pg_catalog.unnest($2::text[]), pg_catalog.unnest($3::bigint[]), pg_catalog.unnest($4::text[]),
		pg_catalog.unnest($5::text[]), pg_catalog.unnest($6::bytea[])) AS w (key, revision, state, lock, data)
), deleted AS (
	DELETE FROM {idempotency} e USING wanted w
	WHERE e.name = $1 AND e.key = w.key AND e.revision = w.revision AND w.state = '' RETURNING e.key
), replaced AS (
	UPDATE {idempotency} e SET revision = e.revision + 1, state = w.state, lock = CASE w.lock WHEN e.lock THEN e.lock ELSE '' END,
		data = w.data, saved_by = $7, saved_at = pg_catalog.clock_timestamp()
	FROM wanted w WHERE e.name = $1 AND e.key = w.key AND e.revision = w.revision AND w.state <> '' RETURNING 1
)
SELECT (SELECT pg_catalog.count(*) FROM deleted) + (SELECT pg_catalog.count(*) FROM replaced)`

// Replace implements [store.Store] with a single statement.
func (s *IdempotencyStore) Replace(ctx context.Context, entries []store.Entry) (replaced int, err error) {
	n := len(entries)
	keys, revisions, states, locks, data := make([]string, n), make([]int64, n), make([]string, n), make([]string, n), make([][]byte, n)
	for i, e := range entries {
		keys[i], revisions[i], states[i], locks[i] = e.Key, e.Revision, string(e.State), e.Lock
		data[i] = append([]byte{}, e.Data...) // never NULL
	}
	by := rand.Text()
	err = s.queryRow(ctx, []any{&replaced}, replaceEntries, s.name, keys, revisions, states, locks, data, by)
	return replaced, err
}

func (s *IdempotencyStore) save(ctx context.Context, conn *pgxpool.Conn, entry store.Entry, by string) (saved bool, err error) {
	statement := updateEntry
	if entry.Revision == 0 {
		statement = insertEntry
	}
	data := entry.Data
	if data == nil {
		data = []byte{}
	}
	tag, err := conn.Exec(ctx, s.sql(statement), s.name, entry.Key, entry.Revision, string(entry.State), entry.Lock, data, by)
	if stateOf(err) == uniqueViolation {
		return false, nil
	}
	return tag.RowsAffected() > 0, err
}

const uniqueViolation = "23505" // SQLSTATE

// refused returns the reason for which an entry was not saved. The result is nil if an earlier
// try, whose connection broke, has saved the entry: the row then holds the name of this Save.
func (s *IdempotencyStore) refused(ctx context.Context, conn *pgxpool.Conn, entry store.Entry, by string) error {
	var revision int64
	var ours bool
	var holder string
	err := conn.QueryRow(ctx, s.sql(inTheWay), s.name, entry.Key, by, entry.Lock).Scan(&revision, &ours, &holder)
	switch {
	case err != nil:
		return err
	case ours:
		return nil
	case revision != entry.Revision:
		return store.ErrConflict
	case holder != "":
		return &store.LockedError{Key: holder}
	}
	return errAgain // the conflicting row has gone
}

// The parameters are the args of List. The entry at which the data exceed the limit is the first
// of the next page, but a page has at least one entry.
const (
	listPage = `
SELECT ` + entryColumns + ` FROM (
	SELECT *, pg_catalog.sum(pg_catalog.octet_length(data)) OVER (ORDER BY saved_at, key) AS bytes,
		pg_catalog.row_number() OVER (ORDER BY saved_at, key) AS n FROM (`
	selected = ` AND pg_catalog.starts_with(key, $3) AND (saved_at, key) > ($6, $7)
		AND saved_at <= CASE WHEN $4::interval > '0' THEN pg_catalog.statement_timestamp() - $4::interval ELSE 'infinity' END
		ORDER BY saved_at, key LIMIT $5::bigint`
	pageEnd = `) entries) page
WHERE bytes <= $8 OR n = 1 ORDER BY saved_at, key`

	// The oldest entries of each state come first in the state's part of the index.
	listStates = listPage + `
	SELECT entries.* FROM (SELECT DISTINCT pg_catalog.unnest($2::text[]) AS wanted) states, LATERAL (
		SELECT * FROM {idempotency} WHERE name = $1 AND state = wanted` + selected + `) entries
	ORDER BY saved_at, key LIMIT $5::bigint` + pageEnd

	// MATERIALIZED prevents the planner from reading the index of the states in its order.
	listPrefix = `
WITH prefixed AS MATERIALIZED (SELECT * FROM {idempotency} WHERE name = $1 AND key >= $3 AND key < $9)` + listPage + `
	SELECT * FROM prefixed WHERE state = ANY($2)` + selected + pageEnd

	countPrefix = `
SELECT pg_catalog.count(*) FROM (SELECT FROM {idempotency} WHERE name = $1 AND key >= $2 AND key < $3 LIMIT $4) prefixed`
)

// narrow is the largest number of entries of a prefix for which List reads all of them.
const narrow = 1000

// last is longer than any key. No key follows a prefix with last, in the order of bytes.
var last = strings.Repeat(string(utf8.MaxRune), 100)

// List implements [store.Store].
func (s *IdempotencyStore) List(ctx context.Context, filter store.Filter) (entries []store.Entry, err error) {
	at, key, err := filter.After.At()
	if err != nil || at > math.MaxInt64 {
		return nil, store.ErrPosition
	}
	states := make([]string, len(filter.States))
	for i, state := range filter.States {
		states[i] = string(state)
	}
	older := min(filter.Older, math.MaxInt64-time.Microsecond) + time.Microsecond - 1 // PostgreSQL counts in microseconds
	after := time.UnixMicro(int64(at))
	args := []any{s.name, states, filter.Prefix, older, max(0, filter.Limit), after, key, store.PageBytes}
	err = s.retry(ctx, func(conn *pgxpool.Conn) error {
		statement, args := listStates, args
		if filter.Prefix != "" {
			var n int
			end := filter.Prefix + last
			count := conn.QueryRow(ctx, s.sql(countPrefix), s.name, filter.Prefix, end, narrow+1)
			if err := count.Scan(&n); err != nil {
				return err
			}
			if n <= narrow {
				statement, args = listPrefix, append(args, end)
			}
		}
		rows, _ := conn.Query(ctx, s.sql(statement), args...)
		entries, err = pgx.CollectRows(rows, scanEntry)
		return err
	})
	return entries, err
}
