package lendingpostgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go/internal/claimer"
	"github.com/lendingapi/lending-go/webhook"
)

// takeEvent claims the first due event, or the event of the same claim whose response was lost. Claims
// of the same moment end at different times: if one event crashes the process, the others are claimed
// without it next time. Without the SELECTs of parameters, the server would plan the statement each time.
const takeEvent = `
WITH head AS MATERIALIZED (
	SELECT id FROM {inbox}
	WHERE name = $1::text AND due >= (SELECT $4::timestamptz) AND due <= (SELECT pg_catalog.clock_timestamp())
		AND (claim IS NULL OR claim = $2::bigint OR until <= (SELECT pg_catalog.clock_timestamp()))
	ORDER BY due, id LIMIT 1 FOR UPDATE SKIP LOCKED
)
UPDATE {inbox} AS event SET claim = $2::bigint, tries = tries + CASE WHEN claim = $2::bigint THEN 0 ELSE 1 END,
	until = pg_catalog.clock_timestamp() + $3::interval * (1::float8 + 0.5::float8 * pg_catalog.random())
FROM head WHERE event.id = head.id
RETURNING event.id, event.tries, event.body, event.due`

// relax lets the server answer before the claim of a statement is on the disk. The claims of WorkTx
// need not survive the server: if the server ends, their transactions end too.
const relax = "SELECT pg_catalog.set_config('synchronous_commit', 'off', true)"

// source is the inbox for its claimer.
type source struct {
	*Inbox
	forget atomic.Int64 // when to delete keys next, in nanoseconds since 1970

	mu    sync.Mutex
	lost  []int64   // numbers of claims that may or may not be committed
	from  time.Time // due time of the last event of a backlog; zero without a backlog
	began time.Time // last request from the first event on
}

type seen = claimer.Seen[*webhook.InboxEntry]

func (s *source) claim(ctx context.Context, relaxed bool) (found seen, err error) {
	if err := s.forgetKeys(ctx); err != nil {
		return found, err
	}
	began := time.Now()
	claim, from := s.plan(began)
	entry, due, err := s.take(ctx, relaxed, claim, from)
	s.note(claim, due, err)
	if err != nil || !due.IsZero() {
		return seen{Entry: entry, Found: err == nil}, err
	}
	if from.IsZero() { // otherwise, the next request begins at the first event
		found.Next, err = s.outlook(ctx, began)
	}
	return found, err
}

// plan returns the number of a claim, and the due time at which the request begins. During a backlog, a
// request continues behind the last claimed event, because until a vacuum the index still holds the
// events handled before. Once in Poll, a request begins at the first event: events that are due again
// can be earlier.
func (s *source) plan(now time.Time) (claim int64, from time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.began) >= s.options.Poll {
		s.from, s.began = time.Time{}, now
	}
	claim = rand.Int64()
	if last := len(s.lost) - 1; last >= 0 {
		claim, s.lost = s.lost[last], s.lost[:last]
	}
	return claim, s.from
}

// note notes the due time of the claimed event, and the number of a claim whose response may be lost.
func (s *source) note(claim int64, due time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.from = due; err != nil && due.IsZero() {
		s.lost = append(s.lost, claim)
	}
}

// take claims an event, and returns the time at which it was due, or zero without an event.
func (s *source) take(ctx context.Context, relaxed bool, claim int64, from time.Time) (
	entry *webhook.InboxEntry, due time.Time, err error,
) {
	var id int64
	var tries int
	var body []byte
	var start time.Time
	err = s.retry(ctx, func(conn *pgxpool.Conn) error {
		start = time.Now()
		var batch pgx.Batch // a single transaction and round trip
		if relaxed {
			batch.Queue(relax)
		}
		batch.Queue(s.sql(takeEvent), s.name, claim, s.options.Lease, from).QueryRow(func(row pgx.Row) error {
			return row.Scan(&id, &tries, &body, &due)
		})
		return conn.SendBatch(ctx, &batch).Close()
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, due, nil
	} else if err != nil {
		return nil, due, err
	}
	event, err := s.options.Encryption.Open(body)
	entry = &webhook.InboxEntry{Event: event, Tries: tries, ID: idOf(id, claim), Until: start.Add(s.options.Lease / 10 * 9)}
	if err != nil {
		err = s.setAside(ctx, entry, err)
	}
	return entry, due, err
}

// setAside makes a dead letter of a row without a valid event, because it would fail each time. An
// event that another process has to read waits.
func (s *source) setAside(ctx context.Context, entry *webhook.InboxEntry, refused error) error {
	if entry.Event == nil {
		failed := s.endClaim(ctx, entry, "UPDATE {inbox} SET claim = NULL, tries = tries - 1, due = pg_catalog.clock_timestamp() + $4::interval"+ofClaim,
			claimer.Unreadable)
		return errors.Join(fmt.Errorf("lendingpostgres: an event cannot be read here: %w", refused), failed)
	}
	return errors.Join(fmt.Errorf("lendingpostgres: an entry is now a dead letter: %w", refused), s.DeadLetter(ctx, entry, refused))
}

// maxForgotten is the most keys of a statement, because a request has 10 s.
const maxForgotten = 10_000

// forgetKeys deletes keys older than Keep. The read of all keys, once a minute, costs less than an index
// of times would cost each Put. While there are more keys to delete, each request deletes some.
func (s *source) forgetKeys(ctx context.Context) error {
	now, due := time.Now(), s.forget.Load()
	next := now.Add(min(s.options.Keep/4, time.Minute))
	if now.UnixNano() < due || !s.forget.CompareAndSwap(due, next.UnixNano()) {
		return nil
	}
	rows, err := s.exec(ctx, `
DELETE FROM {inbox_seen} WHERE ctid = ANY (ARRAY(
	SELECT ctid FROM {inbox_seen} WHERE name = $1::text AND at < pg_catalog.statement_timestamp() - $2::interval
	LIMIT $3::integer FOR UPDATE SKIP LOCKED))`, s.name, s.options.Keep, maxForgotten)
	if rows == maxForgotten {
		s.forget.Store(now.UnixNano())
	}
	return err
}

// outlook returns the time until the inbox should ask again: until the next event is due that
// was not due when the request began, including the end of another process's claim. Other
// workers take the events that were due.
func (s *source) outlook(ctx context.Context, began time.Time) (next time.Duration, err error) {
	next = -1
	err = s.retry(ctx, func(conn *pgxpool.Conn) error {
		var wait *time.Duration // nil if there is none
		err := conn.QueryRow(ctx, s.sql(`
SELECT least(
	(SELECT pg_catalog.min(until) FROM {inbox} WHERE name = $1::text AND due <= now AND claim IS NOT NULL AND until > began),
	(SELECT due FROM {inbox} WHERE name = $1::text AND due > began AND claim IS NULL ORDER BY due LIMIT 1)) - now
FROM (SELECT pg_catalog.clock_timestamp() AS now, pg_catalog.clock_timestamp() - $2::interval AS began) moment`),
			s.name, time.Since(began)).Scan(&wait)
		if err == nil && wait != nil {
			next = max(0, *wait) + time.Microsecond
		}
		return err
	})
	return next, err
}
