package lendingpostgres

import (
	"context"
	"crypto/sha256"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go/internal/batch"
	"github.com/lendingapi/lending-go/webhook"
)

// The statements wait for another transaction that puts the same event. A key older than Keep
// counts as unknown, even before its deletion.
const (
	putOne = `
WITH new AS (
	INSERT INTO {inbox_seen} AS seen (name, key, at) VALUES ($1::text, $2::bytea, pg_catalog.clock_timestamp())` + unlessSeen + `
	RETURNING at)
INSERT INTO {inbox} (name, due, body) SELECT $1::text, at, $3::bytea FROM new`
	putOneTx = atReadCommitted + `new AS (
	INSERT INTO {inbox_seen} AS seen (name, key, at)
	SELECT $1::text, $2::bytea, pg_catalog.clock_timestamp() FROM level WHERE sees` + unlessSeen + `
	RETURNING at
), inserted AS (
	INSERT INTO {inbox} (name, due, body) SELECT $1::text, at, $3::bytea FROM new RETURNING 1)` + elseTwoRows
	putNewOne = `
WITH new AS (
	INSERT INTO {inbox_seen} (name, key, at) VALUES ($1::text, $2::bytea, pg_catalog.clock_timestamp()) RETURNING at)
INSERT INTO {inbox} (name, due, body) SELECT $1::text, at, $3::bytea FROM new`
	unlessSeen = `
	ON CONFLICT (name, key) DO UPDATE SET at = excluded.at WHERE seen.at < excluded.at - $4::interval`
)

// putMany puts different events and returns the keys of the new events. All processes insert keys
// in the same order, so no two wait for each other. The statement gives up before a deadlock
// with a transaction of PutTx would be detected.
const putMany = `
WITH new AS (
	INSERT INTO {inbox_seen} AS seen (name, key, at) SELECT $1::text, key, now
	FROM (SELECT pg_catalog.clock_timestamp() AS now, pg_catalog.set_config('lock_timeout', $5::text, true) OFFSET 0) AS moment,
		pg_catalog.unnest($2::bytea[]) AS key ORDER BY key` + unlessSeen + `
	RETURNING key, at
), inserted AS (
	INSERT INTO {inbox} (name, due, body) SELECT $1::text, at, body
	FROM new JOIN ROWS FROM (pg_catalog.unnest($2::bytea[]), pg_catalog.unnest($3::bytea[])) AS event (key, body) USING (key))
SELECT key FROM new`

// lockTimeout limits how long a locked row of a single event delays the events of a transaction.
var lockTimeout = strconv.FormatInt(batch.Patience.Milliseconds(), 10)

// putEvent is an event to put.
type putEvent struct{ key, body []byte }

// Put implements [webhook.Inbox]. Put returns after the commit. If the connection breaks during
// the commit, Put tries again, and returns [webhook.ErrDuplicate] if the first try was
// committed. The event is in the inbox in both cases.
//
// Calls that come while four transactions are in progress wait, and then share a transaction. If
// that transaction fails, or waits for a transaction of PutTx with the same event, each call gets
// a transaction of its own.
func (b *Inbox) Put(ctx context.Context, event *webhook.Event) error {
	e, err := b.toPut(event)
	if err != nil {
		return err
	}
	if err := b.puts().Do(ctx, e); err != nil {
		return err
	}
	b.claims().LookIn(0)
	b.notify(ctx)
	return nil
}

// toPut refuses a handmade event that no worker could read.
func (b *Inbox) toPut(event *webhook.Event) (putEvent, error) {
	body := event.Body()
	if _, err := webhook.Parse(body); err != nil {
		return putEvent{}, err
	}
	key := sha256.Sum256(body)
	return putEvent{key[:], b.options.Encryption.Seal(event)}, nil
}

func (b *Inbox) put() batch.Store[putEvent] {
	return batch.Store[putEvent]{
		Alone: b.putOne, Together: b.putMany, Size: func(e putEvent) int { return len(e.body) },
	}
}

func (b *Inbox) putOne(ctx context.Context, e putEvent) error {
	rows, err := b.exec(ctx, putOne, b.name, e.key, e.body, b.options.Keep)
	if err == nil && rows == 0 {
		err = webhook.ErrDuplicate
	}
	return err
}

// putMany puts events. Of several equal events, the first gets the result.
func (b *Inbox) putMany(ctx context.Context, events []putEvent) (results []error, err error) {
	var keys, bodies, added [][]byte
	first := make(map[string]int, len(events))
	results = make([]error, len(events))
	for i, e := range events {
		results[i] = webhook.ErrDuplicate
		if _, again := first[string(e.key)]; !again {
			first[string(e.key)] = i
			keys, bodies = append(keys, e.key), append(bodies, e.body)
		}
	}
	_, err = b.once(ctx, func(conn *pgxpool.Conn) error {
		rows, err := conn.Query(ctx, b.sql(putMany), b.name, keys, bodies, b.options.Keep, lockTimeout)
		if err != nil {
			return err
		}
		added, err = pgx.CollectRows(rows, pgx.RowTo[[]byte])
		return err
	})
	for _, key := range added {
		results[first[string(key)]] = nil
	}
	return results, err
}

// Tx is a transaction of the caller: a [pgx.Tx], or a [pgx.Conn] inside a transaction.
type Tx interface {
	// Exec is the method of pgx.
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// PutTx puts an event in a transaction of the caller. The event is in the inbox if the
// transaction commits. For a known event, PutTx returns [webhook.ErrDuplicate], and the
// transaction can continue at every isolation level. PutTx waits for another transaction that
// puts the same event.
//
// Workers take the event within Poll. With Notify, the transaction also notifies the processes
// that listen; such transactions commit one after the other.
func (b *Inbox) PutTx(ctx context.Context, tx Tx, event *webhook.Event) error {
	e, err := b.toPut(event)
	if err != nil {
		return err
	}
	arguments := []any{b.name, e.key, e.body, b.options.Keep}
	added, err := insertTx(ctx, tx, statement{b.sql(putOneTx), arguments},
		statement{b.sql(putOne), arguments}, statement{b.sql(putNewOne), arguments[:3]})
	switch {
	case err != nil:
		return err
	case !added:
		return webhook.ErrDuplicate
	case b.options.Notify:
		_, err = tx.Exec(ctx, notifyChannel, b.channel())
	}
	return err
}
