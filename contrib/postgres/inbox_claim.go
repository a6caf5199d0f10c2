package lendingpostgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go/webhook"
)

// taken is a row of the inbox that this process has taken.
type taken struct {
	id, claim       int64
	failed, unended int
	body            []byte
	left            time.Duration // of the claim
	until           time.Time
}

// entry returns what it is to a worker. If it holds no event, as [webhook.Parse] says,
// that of the entry is nothing but the bytes.
func (r taken) entry() (*webhook.InboxEntry, error) {
	event, err := webhook.Parse(r.body)
	if err != nil {
		event = new(webhook.Event)
		_ = event.Record.UnmarshalJSON(r.body) // takes anything
	}
	return &webhook.InboxEntry{
		Event: event, Tries: r.failed + 1, Crashes: max(0, r.unended-aloneAfter), ID: idOf(r.id, r.claim), Until: r.until,
	}, err
}

// Of those that are due the first are looked at, and taken up to one that nothing may run
// beside: that is taken if it is the first, and nothing is running. Who has no claim, or one
// that has ended, has not ended what he tried.
//
// That an event was taken must outlive this process, so that what ends processes is found;
// for a worker of WorkTx it need not outlive the server, whose end ends the transaction too.
//
// How many is a number in the text: with a parameter the server would plan it each time.
const takeEvents = `
WITH moment AS MATERIALIZED (
	SELECT pg_catalog.clock_timestamp() AS now, pg_catalog.set_config('synchronous_commit', CASE WHEN $5::boolean THEN 'off' ELSE pg_catalog.current_setting('synchronous_commit') END, true)
), head AS MATERIALIZED (
	SELECT id, due, unended + (claim IS NOT NULL)::integer AS unended FROM {inbox}
	WHERE name = $1::text AND due <= (SELECT now FROM moment) AND (claim IS NULL OR until <= (SELECT now FROM moment))
	ORDER BY due, id LIMIT %d FOR UPDATE SKIP LOCKED
), ordered AS (
	SELECT id, unended, pg_catalog.row_number() OVER line AS number, pg_catalog.bool_or(unended >= 2) OVER line AS stopped FROM head WINDOW line AS (ORDER BY due, id)
), taken AS (
	UPDATE {inbox} AS event SET claim = $2::bigint, until = pg_catalog.clock_timestamp() + $3::interval, unended = ordered.unended
	FROM ordered WHERE event.id = ordered.id AND (NOT stopped OR number = 1 AND $4::boolean)
	RETURNING event.id, event.failed, event.unended, event.body
)
SELECT coalesce(taken.id, 0), coalesce(taken.failed, 0), coalesce(taken.unended, 0), taken.body, $2::bigint, (extract(epoch FROM $3::interval) * 1000000)::bigint FROM ordered LEFT JOIN taken USING (id) ORDER BY number`

// atOnce returns how many events are taken in one statement for so many workers: each number
// is a statement that a connection prepares.
func atOnce(workers int) int {
	n := 1
	for n < 32 && 2*n <= workers {
		n *= 2
	}
	return n
}

// claim takes events, and says how many it has seen: more if one must wait to be
// alone. What was taken when an answer was lost comes first.
func (b *Inbox) claim(ctx context.Context, l look) (rows []taken, seen int, err error) {
	if lost := b.claimer().found(); len(lost) > 0 {
		rows, err = b.recall(ctx, lost)
		return rows, len(rows), err
	}
	err = b.retry(ctx, func(conn *pgxpool.Conn) (err error) {
		number, start := rand.Int64(), time.Now()
		rows, err = collect(ctx, conn, b.sql(fmt.Sprintf(takeEvents, l.n)), b.name, number, b.options.Lease, l.alone, l.relaxed)
		if err != nil {
			b.claimer().lose(number)
		}
		seen = len(rows)
		rows = slices.DeleteFunc(rows, func(r taken) bool { return r.id == 0 })
		for i := range rows {
			rows[i].until = start.Add(rows[i].left - b.options.Lease/10)
		}
		return err
	})
	return rows, seen, err
}

// recall returns what was taken by claims of which the answer was lost. What it does not find,
// because the statement has not ended yet, is due again when the claim ends.
func (b *Inbox) recall(ctx context.Context, lost []int64) (rows []taken, err error) {
	b.claimer().lookIn(0) // it does not look for what is due
	err = b.retry(ctx, func(conn *pgxpool.Conn) (err error) {
		start := time.Now()
		rows, err = collect(ctx, conn, b.sql(`
SELECT id, failed, unended, body, claim, (extract(epoch FROM until - pg_catalog.clock_timestamp()) * 1000000)::bigint FROM {inbox}
WHERE name = $1::text AND due <= (SELECT pg_catalog.clock_timestamp()) AND until > (SELECT pg_catalog.clock_timestamp()) AND claim = ANY ($2::bigint[])`), b.name, lost)
		for i := range rows {
			rows[i].until = start.Add(rows[i].left - b.options.Lease/10)
		}
		return err
	})
	if err != nil {
		b.claimer().lose(lost...)
	}
	return rows, err
}

func collect(ctx context.Context, conn *pgxpool.Conn, statement string, arguments ...any) ([]taken, error) {
	rows, err := conn.Query(ctx, statement, arguments...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (r taken, err error) {
		var left int64
		err = row.Scan(&r.id, &r.failed, &r.unended, &r.body, &r.claim, &left)
		r.left = time.Duration(left) * time.Microsecond
		return r, err
	})
}

// atATime is how many keys are deleted in one statement.
const atATime = 1000

// forget deletes keys that have been known for long enough. If there were many it goes on
// with the next look for events.
func (b *Inbox) forget(ctx context.Context) error {
	rows, err := b.exec(ctx, `
DELETE FROM {inbox_seen} WHERE ctid = ANY (ARRAY(
	SELECT ctid FROM {inbox_seen} WHERE name = $1::text AND at < pg_catalog.statement_timestamp() - $2::interval
	ORDER BY at LIMIT $3::integer FOR UPDATE SKIP LOCKED))`, b.name, b.options.Keep, atATime)
	if rows == atATime {
		b.claimer().forgetMore()
	}
	return err
}

// outlook says when to look again: when the next is due that was not when this process began
// to look, such as one that another will not give back. What was due then others are taking.
func (b *Inbox) outlook(ctx context.Context, began time.Time) error {
	return b.retry(ctx, func(conn *pgxpool.Conn) error {
		var next *int64 // nil if there is none
		err := conn.QueryRow(ctx, b.sql(`
SELECT (extract(epoch FROM least(
	(SELECT pg_catalog.min(until) FROM {inbox} WHERE name = $1::text AND due <= now AND claim IS NOT NULL AND until > began),
	(SELECT due FROM {inbox} WHERE name = $1::text AND due > began AND claim IS NULL ORDER BY due LIMIT 1)) - now) * 1000000)::bigint
FROM (SELECT pg_catalog.clock_timestamp() AS now, pg_catalog.clock_timestamp() - $2::interval AS began) moment`), b.name, time.Since(began)).Scan(&next)
		if err == nil && next != nil {
			b.claimer().lookIn(time.Duration(*next+1) * time.Microsecond)
		}
		return err
	})
}
