package lendingpostgres

import (
	"context"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go/idempotency/store"
)

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
