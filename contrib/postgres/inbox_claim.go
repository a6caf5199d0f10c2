package lendingpostgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go/internal/claimer"
	"github.com/lendingapi/lending-go/webhook"
)

// taken is a row of the inbox with a claim of this process.
type taken struct {
	id, claim  int64
	tries      int
	body       []byte
	until, due time.Time
}

// takeEvents claims the first due events. The claims of a statement end at different times: if one
// of their events ends its process, the others meet it no more.
//
// The server reads and locks no row beyond the second limit. The first limit is for the planner,
// which does not know the second: with a parameter instead, it would plan the statement each time.
const takeEvents = `
WITH head AS MATERIALIZED (
	SELECT id FROM (
		SELECT id FROM {inbox}
		WHERE name = $1::text AND due >= (SELECT $4::timestamptz) AND due <= (SELECT pg_catalog.clock_timestamp())
			AND (claim IS NULL OR until <= (SELECT pg_catalog.clock_timestamp()))
		ORDER BY due, id LIMIT %d FOR UPDATE SKIP LOCKED) AS head LIMIT (SELECT $5::bigint)
)
UPDATE {inbox} AS event SET claim = $2::bigint, tries = tries + 1,
	until = pg_catalog.clock_timestamp() + $3::interval * (1::float8 + 0.5::float8 * pg_catalog.random())
FROM head WHERE event.id = head.id
RETURNING event.id, event.claim, event.tries, event.body, event.due, $3::interval`

// relax lets the server answer before the claims of a statement are on the disk. The claims of
// WorkTx need not survive the server: if the server ends, their transactions end too.
const relax = "SELECT pg_catalog.set_config('synchronous_commit', 'off', true)"

// recallEvents returns the events of claims with a lost response.
const recallEvents = `
SELECT id, claim, tries, body, due, until - (SELECT pg_catalog.clock_timestamp()) FROM {inbox}
WHERE name = $1::text AND due <= (SELECT pg_catalog.clock_timestamp()) AND until > (SELECT pg_catalog.clock_timestamp())
	AND claim = ANY ($2::bigint[])`

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

type give = func(*webhook.InboxEntry, error)

// Claim implements [claimer.Source]. Claims with a lost response come first.
func (s *source) Claim(ctx context.Context, ask claimer.Ask, give give) (seen claimer.Outlook, err error) {
	began := time.Now()
	if lost := s.lose(); len(lost) > 0 {
		if err = s.recall(ctx, lost, give); err != nil {
			s.lose(lost...)
		}
		return claimer.Outlook{More: true}, err
	}
	from := s.start()
	rows, err := s.take(ctx, ask, from)
	for _, r := range rows {
		s.hand(ctx, r, give)
	}
	if err == nil && s.isTime() {
		err = s.forgetKeys(ctx)
	}
	seen.More = len(rows) == ask.N || !from.IsZero()
	if err == nil && !seen.More {
		seen.Next, err = s.outlook(ctx, began)
	}
	seen.More = seen.More || s.hasLost()
	return seen, err
}

// hand gives a row to a worker. A row without a valid event becomes a dead letter, because it
// would fail each time. An event that another process has to read waits.
func (s *source) hand(ctx context.Context, r taken, give give) {
	event, err := s.options.Encryption.Open(r.body)
	entry := &webhook.InboxEntry{Event: event, Tries: r.tries, ID: idOf(r.id, r.claim), Until: r.until}
	if err != nil && event == nil {
		_, failed := s.exec(ctx, "UPDATE {inbox} SET claim = NULL, tries = tries - 1, due = pg_catalog.clock_timestamp() + $4::interval"+ofClaim,
			r.id, s.name, r.claim, claimer.Unreadable)
		err = errors.Join(fmt.Errorf("lendingpostgres: an event cannot be read here: %w", err), failed)
	} else if err != nil {
		err = errors.Join(fmt.Errorf("lendingpostgres: an entry is now a dead letter: %w", err), s.DeadLetter(ctx, entry, err))
	}
	give(entry, err)
}

// GiveBack implements [claimer.Source]. If GiveBack fails, the claim expires.
func (s *source) GiveBack(ctx context.Context, entry *webhook.InboxEntry) {
	if id, claim, err := ofID(entry); err == nil {
		_, _ = s.exec(ctx, "UPDATE {inbox} SET claim = NULL, tries = tries - 1"+ofClaim, id, s.name, claim)
	}
}

// take claims events.
func (s *source) take(ctx context.Context, ask claimer.Ask, from time.Time) (rows []taken, err error) {
	statement := s.sql(fmt.Sprintf(takeEvents, claimer.MaxBatch))
	err = s.retry(ctx, func(conn *pgxpool.Conn) (err error) {
		number := rand.Int64()
		rows, err = s.collect(ctx, conn, ask.Relaxed, statement, s.name, number, s.options.Lease, from, ask.N)
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
	if n := len(rows); n == ask.N {
		s.from = rows[n-1].due
	}
}

// recall gives out the events of claims with a lost response. If a statement has not ended yet,
// recall does not find its events, and they are due again at the end of the claim.
func (s *source) recall(ctx context.Context, lost []int64, give give) error {
	var rows []taken
	err := s.retry(ctx, func(conn *pgxpool.Conn) (err error) {
		rows, err = s.collect(ctx, conn, false, s.sql(recallEvents), s.name, lost)
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

// collect runs a statement that returns claimed events, and returns them in their order.
func (s *source) collect(
	ctx context.Context, conn *pgxpool.Conn, relaxed bool, statement string, arguments ...any,
) (all []taken, err error) {
	start := time.Now()
	var batch pgx.Batch // a single transaction and round trip
	if relaxed {
		batch.Queue(relax)
	}
	batch.Queue(statement, arguments...).Query(func(rows pgx.Rows) (err error) {
		all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (r taken, err error) {
			var left time.Duration
			err = row.Scan(&r.id, &r.claim, &r.tries, &r.body, &r.due, &left)
			r.until = start.Add(left - s.options.Lease/10)
			return r, err
		})
		return err
	})
	err = conn.SendBatch(ctx, &batch).Close()
	slices.SortFunc(all, func(a, b taken) int { return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.id, b.id)) })
	return all, err
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
