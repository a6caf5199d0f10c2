package lendingpostgres

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go/internal/claimer"
	"github.com/lendingapi/lending-go/internal/opaque"
	"github.com/lendingapi/lending-go/webhook"
)

// InboxOptions change an [Inbox]. A nil pointer and zero fields mean the defaults.
type InboxOptions struct {
	Tables
	// Lease is how long a worker may act on an event before another takes it for dead.
	// The context of the function ends a little earlier.
	Lease time.Duration // 5 min
	Keep  time.Duration // how long an event is known, and its exact repetition swallowed; 72 h
	// Poll is how long an event can wait that another process has put, at most. What this one
	// has put, what is tried again and what ended processes have left is taken when it is due.
	Poll time.Duration // 1 s
	// Notify tells the processes that listen, see [Inbox.Listen], of what was put. Several
	// events in a short time are one notification.
	Notify bool
	Tx     pgx.TxOptions // of the transactions of WorkTx
	Logger *slog.Logger  // logs who drops dead letters; nil logs nothing
}

// Inbox is a [webhook.Inbox] in PostgreSQL, for the replicas of a receiver, made by
// [Migrate]: a table of the events that are not done, and one of the keys of those that were
// put, which are known for Keep and then deleted, some at a time.
//
// It keeps what PostgreSQL keeps, which contrib/README.md has as a table: what was put is on
// the disk before Put returns, as long as nobody sets synchronous_commit off. Events lie in it
// as they came, codes and personal data included.
//
// [Inbox.PutTx] puts an event in a transaction of the caller's, and the function of
// [Inbox.WorkTx] has the transaction in which the event ends. Beside them it is an inbox as
// any other, for [webhook.Work].
//
// What a process was acting on when it ended is due again when its Lease has passed, by the
// clock of the database. When that is set back, what was put before waits as long as the step.
// Events are taken with FOR UPDATE SKIP LOCKED, for all workers of a
// process that wait in one statement. A process that waits asks once in Poll. It needs
// nothing of a session, so that a pooler may give each transaction another one.
//
// A pool needs a connection for each worker of WorkTx and two more: see its MaxConns. The role needs SELECT,
// INSERT, UPDATE and DELETE on both tables.
//
// Every event leaves dead rows in the table of those that are not done, which is as small as
// their number once these are vacuumed away: its storage parameters have autovacuum do that
// after 2,000. A claim changes no index, unless the event must be alone, and a fillfactor of 50 leaves it room beside the row. A
// transaction that stays open for long, anywhere in the database, keeps vacuum from it.
type Inbox struct {
	database
	name     string
	options  InboxOptions // without the logger
	logger   opaque.Value[*slog.Logger]
	claims   opaque.Value[*claimer.Claimer[*webhook.InboxEntry]]
	notifier opaque.Value[*notifier]
}

var _ webhook.Inbox = (*Inbox)(nil)

// NewInbox returns the inbox of that name.
func NewInbox(pool *pgxpool.Pool, name string, options *InboxOptions) (*Inbox, error) {
	var o InboxOptions
	if options != nil {
		o = *options
	}
	usual := (&webhook.DeduperOptions{Lease: o.Lease, Keep: o.Keep}).WithDefaults()
	o.Lease, o.Keep = usual.Lease, usual.Keep
	if o.Poll <= 0 {
		o.Poll = time.Second
	}
	d, err := open(pool, &o.Tables)
	if err != nil {
		return nil, err
	}
	logger := opaque.Hide(o.Logger)
	o.Logger = nil
	b := &Inbox{database: d, name: name, options: o, logger: logger, notifier: opaque.Hide(new(notifier))}
	b.claims = opaque.Hide(claimer.New(&source{Inbox: b}, claimer.Options{Poll: o.Poll}))
	return b, nil
}

// Take implements [webhook.Inbox].
func (b *Inbox) Take(ctx context.Context) (*webhook.InboxEntry, error) {
	return b.claims().Take(ctx, false)
}

// exec does a statement that does no harm when it is done twice, and returns how many rows
// it was about.
func (b *Inbox) exec(ctx context.Context, statement string, arguments ...any) (rows int64, err error) {
	err = b.retry(ctx, func(conn *pgxpool.Conn) error {
		tag, err := conn.Exec(ctx, b.sql(statement), arguments...)
		rows = tag.RowsAffected()
		return err
	})
	return rows, err
}

// Another transaction that puts the same event is waited for. A key that has been known for Keep
// is as good as unknown, also before it is deleted.
const (
	putEvent = `
WITH new AS (
	INSERT INTO {inbox_seen} AS seen (name, key, at) VALUES ($1::text, $2::bytea, pg_catalog.clock_timestamp())` + unlessSeen + `
	RETURNING at)
INSERT INTO {inbox} (name, due, body) SELECT $1::text, at, $3::bytea FROM new`
	putEventTx = atReadCommitted + `new AS (
	INSERT INTO {inbox_seen} AS seen (name, key, at)
	SELECT $1::text, $2::bytea, pg_catalog.clock_timestamp() FROM level WHERE sees` + unlessSeen + `
	RETURNING at
), inserted AS (
	INSERT INTO {inbox} (name, due, body) SELECT $1::text, at, $3::bytea FROM new RETURNING 1)` + elseTwoRows
	putNewEvent = `
WITH new AS (
	INSERT INTO {inbox_seen} (name, key, at) VALUES ($1::text, $2::bytea, pg_catalog.clock_timestamp()) RETURNING at)
INSERT INTO {inbox} (name, due, body) SELECT $1::text, at, $3::bytea FROM new`
	unlessSeen = `
	ON CONFLICT (name, key) DO UPDATE SET at = excluded.at WHERE seen.at < excluded.at - $4::interval`
)

// Put implements [webhook.Inbox]. It returns when the event is committed. When the
// connection breaks before it knows that, it puts the event again, and returns
// [webhook.ErrDuplicate] if it was: the event is there in both cases.
func (b *Inbox) Put(ctx context.Context, event *webhook.Event) error {
	arguments, err := b.eventArguments(event)
	if err != nil {
		return err
	}
	rows, err := b.exec(ctx, putEvent, arguments...)
	switch {
	case err != nil:
		return err
	case rows == 0:
		return webhook.ErrDuplicate
	}
	b.claims().LookIn(0)
	b.notify(ctx)
	return nil
}

// PutTx puts an event in a transaction of the caller's: the event is in the inbox if and when the
// transaction is committed. For an event that was seen PutTx returns [webhook.ErrDuplicate], and
// the transaction can go on, at every isolation level. Another transaction that has put the same
// event, and has not ended, is waited for.
//
// An event that was put so is taken within Poll. With Notify the transaction tells the processes
// that listen, and takes turns with other such transactions while it commits.
func (b *Inbox) PutTx(ctx context.Context, tx Tx, event *webhook.Event) error {
	arguments, err := b.eventArguments(event)
	if err != nil {
		return err
	}
	added, err := insertTx(ctx, tx, statement{b.sql(putEventTx), arguments},
		statement{b.sql(putEvent), arguments}, statement{b.sql(putNewEvent), arguments[:3]})
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

// eventArguments are those of the statements above.
func (b *Inbox) eventArguments(event *webhook.Event) ([]any, error) {
	body := event.Body()
	if _, err := webhook.Parse(body); err != nil {
		return nil, err // made by hand: nobody could take it out
	}
	key := sha256.Sum256(body)
	return []any{b.name, key[:], body, b.options.Keep}, nil
}

// A claim is a random number: nobody has it by chance, also not after the database has lost
// it.
func idOf(id, claim int64) string {
	return strconv.FormatInt(id, 10) + "/" + strconv.FormatInt(claim, 10)
}

func ofID(entry *webhook.InboxEntry) (id, claim int64, err error) {
	first, second, _ := strings.Cut(entry.ID, "/")
	id, err = strconv.ParseInt(first, 10, 64)
	if err == nil && second != "" {
		claim, err = strconv.ParseInt(second, 10, 64)
	}
	if err != nil {
		err = errors.New("lendingpostgres: the entry is of another inbox")
	}
	return id, claim, err
}

// Done implements [webhook.Inbox]. What was acted on is removed also when the claim has
// ended: another may act on it by then, but nobody after that.
func (b *Inbox) Done(ctx context.Context, entry *webhook.InboxEntry) error {
	id, _, err := ofID(entry)
	if err != nil {
		return err
	}
	_, err = b.exec(ctx, "DELETE FROM {inbox} WHERE id = $1::bigint AND name = $2::text AND due IS NOT NULL", id, b.name)
	return b.claims().Ended(entry.ID, err)
}

// ofClaim is what only the last who has taken an event may change.
const ofClaim = " WHERE id = $1::bigint AND name = $2::text AND claim = $3::bigint"

// Retry implements [webhook.Inbox].
func (b *Inbox) Retry(ctx context.Context, entry *webhook.InboxEntry, wait time.Duration) error {
	err := b.endClaim(ctx, entry, "UPDATE {inbox} SET failed = failed + 1, unended = 0, claim = NULL, due = pg_catalog.clock_timestamp() + $4::interval"+ofClaim, wait)
	if err == nil {
		b.claims().LookIn(wait)
	}
	return err
}

func (b *Inbox) endClaim(ctx context.Context, entry *webhook.InboxEntry, statement string, arguments ...any) error {
	id, claim, err := ofID(entry)
	if err != nil {
		return err
	}
	_, err = b.exec(ctx, statement, append([]any{id, b.name, claim}, arguments...)...)
	return b.claims().Ended(entry.ID, err)
}
