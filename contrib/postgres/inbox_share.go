package lendingpostgres

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go/webhook"
)

// The limits of a shared transaction.
const (
	transactions = 4       // in progress: some wait for the disk, the others prepare
	maxShared    = 64      // events
	maxBytes     = 1 << 20 // of events
)

// sharing lets calls of Put that come at the same time share transactions: a call that gets a turn
// also puts the events of the calls that wait.
type sharing struct {
	turns   chan struct{} // of the transactions in progress
	mu      sync.Mutex
	waiting []*put // oldest first
}

// put is a call of Put.
type put struct {
	key, body []byte
	done      chan error // with room for the result
}

var errAlone = errors.New("lendingpostgres: the event needs a transaction of its own")

// putShared puts the event of p. It returns errAlone if the transaction fails because of any event.
func (b *Inbox) putShared(ctx context.Context, p *put) error {
	s := b.shared()
	s.mu.Lock()
	s.waiting = append(s.waiting, p)
	s.mu.Unlock()
	select {
	case s.turns <- struct{}{}:
		b.lead(ctx, p)
	case err := <-p.done:
		return err
	case <-ctx.Done():
		s.remove(p)
	}
	select {
	case err := <-p.done:
		return err
	case <-ctx.Done(): // another call may put the event
		return ctx.Err()
	}
}

// lead puts the event of p and of calls that wait, unless another call puts it. Then it ends the turn.
func (b *Inbox) lead(ctx context.Context, p *put) {
	s := b.shared()
	defer func() { <-s.turns }()
	if !s.remove(p) {
		return
	}
	puts := s.take(p)
	added, err := []*put(nil), errAlone
	defer func() { // even after a panic
		for _, p := range puts {
			p.done <- resultOf(p, added, err)
		}
	}()
	added, err = b.putMany(ctx, puts)
}

func resultOf(p *put, added []*put, err error) error {
	switch {
	case err != nil:
		return errAlone
	case !slices.Contains(added, p):
		return webhook.ErrDuplicate
	}
	return nil
}

// remove ends the wait of p. It reports whether p waited.
func (s *sharing) remove(p *put) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.waiting)
	s.waiting = slices.DeleteFunc(s.waiting, func(other *put) bool { return other == p })
	return len(s.waiting) < before
}

// take returns p and the calls that wait, up to the limits.
func (s *sharing) take(p *put) []*put {
	s.mu.Lock()
	defer s.mu.Unlock()
	puts, bytes := []*put{p}, len(p.body)
	for len(s.waiting) > 0 && len(puts) < maxShared && bytes+len(s.waiting[0].body) <= maxBytes {
		bytes += len(s.waiting[0].body)
		puts, s.waiting = append(puts, s.waiting[0]), s.waiting[1:]
	}
	return puts
}

// putEvents puts different events and returns the keys of the new events. All processes insert keys in
// the same order, so no two wait for each other. A row that another transaction holds ends the
// statement after a moment, because it delays all events.
const putEvents = `
WITH new AS (
	INSERT INTO {inbox_seen} AS seen (name, key, at) SELECT $1::text, key, now
	FROM (SELECT pg_catalog.clock_timestamp() AS now, pg_catalog.set_config('lock_timeout', '100', true) OFFSET 0) AS moment,
		pg_catalog.unnest($2::bytea[]) AS key ORDER BY key` + unlessSeen + `
	RETURNING key, at
), inserted AS (
	INSERT INTO {inbox} (name, due, body) SELECT $1::text, at, body
	FROM new JOIN ROWS FROM (pg_catalog.unnest($2::bytea[]), pg_catalog.unnest($3::bytea[])) AS event (key, body) USING (key))
SELECT key FROM new`

// putOne is putEvents for a single event, for which PostgreSQL then plans and sorts less.
const putOne = `
WITH new AS (
	INSERT INTO {inbox_seen} AS seen (name, key, at) SELECT $1::text, $2::bytea, now
	FROM (SELECT pg_catalog.clock_timestamp() AS now, pg_catalog.set_config('lock_timeout', '100', true) OFFSET 0) AS moment` + unlessSeen + `
	RETURNING key, at
), inserted AS (
	INSERT INTO {inbox} (name, due, body) SELECT $1::text, at, $3::bytea FROM new)
SELECT key FROM new`

// putMany returns the calls whose event is new. Of several with equal events, it is the first.
func (b *Inbox) putMany(ctx context.Context, puts []*put) (added []*put, err error) {
	first := make(map[string]*put, len(puts))
	var keys, bodies, fresh [][]byte
	for _, p := range puts {
		if first[string(p.key)] == nil {
			first[string(p.key)] = p
			keys, bodies = append(keys, p.key), append(bodies, p.body)
		}
	}
	statement, arguments := putEvents, []any{b.name, keys, bodies, b.options.Keep}
	if len(puts) == 1 {
		statement, arguments = putOne, b.arguments(puts[0])
	}
	_, err = b.once(ctx, func(conn *pgxpool.Conn) error {
		rows, _ := conn.Query(ctx, b.sql(statement), arguments...)
		fresh, err = pgx.CollectRows(rows, pgx.RowTo[[]byte])
		return err
	})
	for _, key := range fresh {
		added = append(added, first[string(key)])
	}
	return added, err
}
