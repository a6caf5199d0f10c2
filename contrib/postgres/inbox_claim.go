package lendingpostgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go/internal/claimer"
	"github.com/lendingapi/lending-go/webhook"
)

// taken is a row of the inbox with a claim of this process.
type taken struct {
	id, claim       int64
	failed, unended int
	body            []byte
	until, due      time.Time
}

// claimed returns the claim for a worker. If [webhook.Parse] rejects the row, the event of the
// entry holds only the bytes.
func (r taken) claimed() claimer.Claim[*webhook.InboxEntry] {
	event, err := webhook.Parse(r.body)
	if err != nil {
		event = new(webhook.Event)
		_ = event.Record.UnmarshalJSON(r.body) // accepts all bytes
	}
	entry := &webhook.InboxEntry{
		Event: event, Tries: r.failed + 1, Crashes: max(0, r.unended-claimer.AloneAfter), ID: idOf(r.id, r.claim), Until: r.until,
	}
	return claimer.Claim[*webhook.InboxEntry]{
		Entry: entry, ID: entry.ID, Until: r.until, Alone: r.unended >= claimer.AloneAfter, Err: err,
	}
}

// takeEvents claims the first due events, up to an event that must run alone. Such an event is
// claimed only if it is the first and no other event is running. An expired claim counts as a
// suspicion that the event ends processes.
//
// An event that must run alone moves behind all due events. If processes end for another reason,
// the suspicion thus moves from event to event, and does not stay with the first.
//
// A claim must outlive this process, so that events that end processes are found. A claim of
// WorkTx need not outlive the server: if the server ends, the transaction ends too.
//
// The server reads and locks no row beyond the second limit. The first limit is for the planner,
// which does not know the second: with a parameter instead, it would plan the statement each time.
const takeEvents = `
WITH moment AS MATERIALIZED (
	SELECT pg_catalog.clock_timestamp() AS now, pg_catalog.set_config('synchronous_commit', CASE WHEN $5::boolean THEN 'off' ELSE pg_catalog.current_setting('synchronous_commit') END, true)
), head AS MATERIALIZED (
	SELECT id, due, unended FROM (
		SELECT id, due, unended + (claim IS NOT NULL)::integer AS unended FROM {inbox}
		WHERE name = $1::text AND due >= (SELECT $7::timestamptz) AND due <= (SELECT now FROM moment) AND (claim IS NULL OR until <= (SELECT now FROM moment))
		ORDER BY due, id LIMIT %d FOR UPDATE SKIP LOCKED) AS head LIMIT (SELECT $6::bigint)
), ordered AS (
	SELECT id, due, unended, pg_catalog.row_number() OVER line AS number, pg_catalog.bool_or(unended >= 2) OVER line AS stopped FROM head WINDOW line AS (ORDER BY due, id)
), taken AS (
	UPDATE {inbox} AS event SET claim = $2::bigint, until = pg_catalog.clock_timestamp() + $3::interval, unended = ordered.unended,
		due = CASE WHEN ordered.unended >= 2 THEN (SELECT now FROM moment) ELSE event.due END
	FROM ordered WHERE event.id = ordered.id AND (NOT stopped OR number = 1 AND $4::boolean)
	RETURNING event.id, event.failed, event.unended, event.body
)
SELECT coalesce(taken.id, 0), coalesce(taken.failed, 0), coalesce(taken.unended, 0), taken.body, $2::bigint, (extract(epoch FROM $3::interval) * 1000000)::bigint, ordered.due FROM ordered LEFT JOIN taken USING (id) ORDER BY number`

// source is the inbox for its claimer.
type source struct {
	*Inbox
	mu     sync.Mutex
	lost   []int64   // claims that may or may not be committed
	forget time.Time // when to delete keys next
	last   []byte    // the last key of the walk that deletes keys; nil at its beginning
	from   time.Time // due time of the last event of a backlog; zero without a backlog
	began  time.Time // last request from the first event on
}

// Claim implements [claimer.Source]. Claims with a lost response come first.
func (s *source) Claim(
	ctx context.Context, ask claimer.Ask, give func(claimer.Claim[*webhook.InboxEntry]),
) (seen claimer.Outlook, err error) {
	began := time.Now()
	if lost := s.lose(); len(lost) > 0 {
		if err = s.recall(ctx, lost, give); err != nil {
			s.lose(lost...)
		}
		return claimer.Outlook{More: true}, err
	}
	from := s.start()
	rows, err := s.take(ctx, ask, from)
	claimed := 0
	for _, r := range rows {
		if r.id != 0 {
			claimed++
			s.hand(ctx, r, give)
		}
	}
	if err == nil && s.isTime() {
		err = s.forgetKeys(ctx)
	}
	seen.Suspect, seen.More = len(rows) > claimed, len(rows) == ask.N || !from.IsZero()
	if err == nil && !seen.Suspect && !seen.More {
		seen.Next, err = s.outlook(ctx, began)
	}
	seen.More = seen.More || s.hasLost()
	return seen, err
}

// hand gives a row to a worker. A row without a valid event becomes a dead letter, because it
// would fail each time.
func (s *source) hand(ctx context.Context, r taken, give func(claimer.Claim[*webhook.InboxEntry])) {
	claim := r.claimed()
	if claim.Err != nil {
		claim.Err = errors.Join(fmt.Errorf("lendingpostgres: an entry is now a dead letter: %w", claim.Err), s.DeadLetter(ctx, claim.Entry, claim.Err))
	}
	give(claim)
}

// GiveBack implements [claimer.Source]. If GiveBack fails, the claim expires.
func (s *source) GiveBack(ctx context.Context, entry *webhook.InboxEntry) {
	if id, claim, err := ofID(entry); err == nil {
		_, _ = s.exec(ctx, "UPDATE {inbox} SET claim = NULL"+ofClaim, id, s.name, claim)
	}
}

// take claims events. A row without an id stands for an event that must wait.
func (s *source) take(ctx context.Context, ask claimer.Ask, from time.Time) (rows []taken, err error) {
	statement := s.sql(fmt.Sprintf(takeEvents, claimer.MaxBatch))
	err = s.retry(ctx, func(conn *pgxpool.Conn) (err error) {
		number := rand.Int64()
		rows, err = s.collect(ctx, conn, statement, s.name, number, s.options.Lease, ask.Alone, ask.Relaxed, ask.N, from)
		if err != nil {
			s.lose(number)
		}
		return err
	})
	s.follow(rows, ask)
	return rows, err
}

// start returns the due time at which a request begins. During a backlog, a request continues
// behind the last claimed event, because until a vacuum the index still holds the events handled
// before. Once in Poll, a request begins at the first event: events given back are earlier.
func (s *source) start() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); now.Sub(s.began) >= s.options.Poll {
		s.from, s.began = time.Time{}, now
	}
	return s.from
}

// follow notes where the next request continues. The backlog ends if there are fewer events than
// the request asked for.
func (s *source) follow(rows []taken, ask claimer.Ask) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.from = time.Time{}
	for _, r := range rows {
		if r.id != 0 && len(rows) == ask.N {
			s.from = r.due
		}
	}
}

// recall gives out the events of claims with a lost response. If a statement has not ended yet,
// recall does not find its events, and they are due again at the end of the claim.
func (s *source) recall(ctx context.Context, lost []int64, give func(claimer.Claim[*webhook.InboxEntry])) error {
	var rows []taken
	err := s.retry(ctx, func(conn *pgxpool.Conn) (err error) {
		rows, err = s.collect(ctx, conn, s.sql(`
SELECT id, failed, unended, body, claim, (extract(epoch FROM until - pg_catalog.clock_timestamp()) * 1000000)::bigint, due FROM {inbox}
WHERE name = $1::text AND due <= (SELECT pg_catalog.clock_timestamp()) AND until > (SELECT pg_catalog.clock_timestamp())
	AND claim = ANY ($2::bigint[])`), s.name, lost)
		return err
	})
	for _, r := range rows {
		s.hand(ctx, r, give)
	}
	return err
}

// lose records claims that may or may not be committed. Without arguments, lose returns the
// recorded claims and forgets them.
func (s *source) lose(claims ...int64) (lost []int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(claims) == 0 {
		lost, s.lost = s.lost, nil
		return lost
	}
	s.lost = append(s.lost, claims...)
	return nil
}

func (s *source) hasLost() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.lost) > 0
}

// isTime reports whether to delete keys, to a single caller at a time.
func (s *source) isTime() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if now.Before(s.forget) {
		return false
	}
	s.forget = now.Add(min(s.options.Keep/4, time.Minute))
	return true
}

func (s *source) collect(ctx context.Context, conn *pgxpool.Conn, statement string, arguments ...any) ([]taken, error) {
	start := time.Now()
	rows, err := conn.Query(ctx, statement, arguments...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (r taken, err error) {
		var left int64
		err = row.Scan(&r.id, &r.failed, &r.unended, &r.body, &r.claim, &left, &r.due)
		r.until = start.Add(time.Duration(left)*time.Microsecond - s.options.Lease/10)
		return r, err
	})
}

// forgetKeys walks through the keys, some at a time, and deletes the keys older than Keep. An
// index of times would cost each Put more than the walk. While a twentieth of the keys or more has
// expired, the next request continues, so expired keys take little space.
func (s *source) forgetKeys(ctx context.Context) error {
	const atATime = 1000
	var seen, forgotten int
	var last []byte
	err := s.retry(ctx, func(conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, s.sql(`
WITH step AS MATERIALIZED (
	SELECT ctid, key, at < pg_catalog.statement_timestamp() - $3::interval AS expired FROM {inbox_seen}
	WHERE name = $1::text AND key > $2::bytea ORDER BY key LIMIT 1000
), forgotten AS (
	DELETE FROM {inbox_seen} WHERE ctid = ANY (ARRAY(
		SELECT ctid FROM {inbox_seen} WHERE ctid = ANY (ARRAY(SELECT ctid FROM step WHERE expired))
			AND at < pg_catalog.statement_timestamp() - $3::interval FOR UPDATE SKIP LOCKED))
	RETURNING 1
)
SELECT (SELECT pg_catalog.count(*) FROM step), (SELECT pg_catalog.count(*) FROM forgotten), (SELECT key FROM step ORDER BY key DESC LIMIT 1)`),
			s.name, s.walked(), s.options.Keep).Scan(&seen, &forgotten, &last)
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last = last; seen < atATime {
		s.last = nil
	}
	if forgotten > seen/20 {
		s.forget = time.Time{}
	}
	return nil
}

// walked returns the key at which the walk continues.
func (s *source) walked() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]byte{}, s.last...)
}

// outlook returns the time until the inbox should ask again: until the next event is due that
// was not due when the request began, including the end of another process's claim. Other
// workers take the events that were due.
func (s *source) outlook(ctx context.Context, began time.Time) (next time.Duration, err error) {
	err = s.retry(ctx, func(conn *pgxpool.Conn) error {
		var microseconds *int64 // nil if there is none
		err := conn.QueryRow(ctx, s.sql(`
SELECT (extract(epoch FROM least(
	(SELECT pg_catalog.min(until) FROM {inbox} WHERE name = $1::text AND due <= now AND claim IS NOT NULL AND until > began),
	(SELECT due FROM {inbox} WHERE name = $1::text AND due > began AND claim IS NULL ORDER BY due LIMIT 1)) - now) * 1000000)::bigint
FROM (SELECT pg_catalog.clock_timestamp() AS now, pg_catalog.clock_timestamp() - $2::interval AS began) moment`),
			s.name, time.Since(began)).Scan(&microseconds)
		if err == nil && microseconds != nil {
			next = time.Duration(max(0, *microseconds)+1) * time.Microsecond
		}
		return err
	})
	return next, err
}
