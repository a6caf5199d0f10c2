package lendingpostgres

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go/internal/claimer"
	"github.com/lendingapi/lending-go/internal/opaque"
	"github.com/lendingapi/lending-go/webhook"
)

// InboxOptions change an [Inbox]. A nil pointer and zero fields mean the defaults.
type InboxOptions struct {
	Tables
	// Lease is the longest time for handling an event. Afterwards another worker takes the
	// event, because the first process may be dead. The context of the function ends a little
	// earlier.
	Lease time.Duration // 5 min
	Keep  time.Duration // how long an exact redelivery of an event is recognized and dropped; 72 h
	// Poll is the interval at which the inbox looks for events that other processes have put.
	// The inbox takes this process's own events, retries and expired claims when they are due.
	Poll time.Duration // 1 s
	Tx   pgx.TxOptions // options for the transactions of WorkTx
	// Encryption encrypts the events in the table. Nil stores them in plain text.
	Encryption *webhook.Encryption
}

// Inbox is a [webhook.Inbox] in PostgreSQL, for the replicas of a receiver. [Migrate] creates a
// table of the unfinished events, and a table with the key of every event. The inbox deletes the
// keys after Keep.
//
// Put returns after the commit. The event is then on the disk, unless synchronous_commit is off;
// contrib/README.md has a table of the settings. Without Encryption, the table holds the events in
// plain text, including codes and personal data.
//
// The inbox works with [webhook.Work] like any other. In addition, [Inbox.PutTx] puts an event
// in a transaction of the caller, and [Inbox.WorkTx] gives the function the transaction that
// removes the event.
//
// # Processes
//
// If a process dies, its events are due again after Lease, and up to half of Lease later at random,
// by the clock of the database.
// If that clock is set back, waiting events wait longer by the same time. The workers of a process
// take turns to claim an event, with FOR UPDATE SKIP LOCKED; one of them asks once in Poll. During a
// backlog, an event that is due again, or was put by PutTx with a late commit, waits up to Poll while
// later events are taken.
//
// The pool needs a connection for each worker of WorkTx and two more: see MaxConns.
//
// # Disk space
//
// Every event leaves two dead rows in the table of unfinished events: of the claim and of its
// end. The storage parameters start autovacuum after 2,000 dead rows. A claim changes no index;
// the fillfactor of 50 leaves room for the new version of the row.
type Inbox struct {
	database
	name    string
	options InboxOptions
	claims  opaque.Value[*claimer.Claimer[*webhook.InboxEntry]]
}

var _ webhook.Inbox = (*Inbox)(nil)

// NewInbox returns an inbox. Inboxes with different names are independent.
func NewInbox(pool *pgxpool.Pool, name string, options *InboxOptions) (*Inbox, error) {
	o := *cmp.Or(options, new(InboxOptions))
	claimer.SetDefault(&o.Lease, 5*time.Minute)
	claimer.SetDefault(&o.Keep, 72*time.Hour)
	claimer.SetDefault(&o.Poll, time.Second)
	d, err := open(pool, &o.Tables)
	if err != nil {
		return nil, err
	}
	b := &Inbox{database: d, name: name, options: o}
	b.claims = opaque.Hide(claimer.New((&source{Inbox: b}).claim, o.Poll))
	return b, nil
}

// putEvent waits for another transaction that puts the same event. A key older than Keep counts as
// unknown, even before its deletion.
const putEvent = `
WITH new AS (
	INSERT INTO {inbox_seen} AS seen (name, key, at) VALUES ($1::text, $2::bytea, pg_catalog.clock_timestamp())
	ON CONFLICT (name, key) DO UPDATE SET at = excluded.at WHERE seen.at < excluded.at - $4::interval
	RETURNING at)
INSERT INTO {inbox} (name, due, body) SELECT $1::text, at, $3::bytea FROM new`

// Put implements [webhook.Inbox]. Put returns after the commit. If the connection breaks during
// the commit, Put tries again, and returns [webhook.ErrDuplicate] if the first try was
// committed. The event is in the inbox in both cases.
func (b *Inbox) Put(ctx context.Context, event *webhook.Event) error {
	arguments, err := b.putArguments(event)
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
	return nil
}

// putArguments returns the arguments of putEvent. It refuses a handmade event that no worker could read.
func (b *Inbox) putArguments(event *webhook.Event) ([]any, error) {
	body := event.Body()
	if _, err := webhook.Parse(body); err != nil {
		return nil, err
	}
	key := sha256.Sum256(body)
	return []any{b.name, key[:], b.options.Encryption.Seal(event), b.options.Keep}, nil
}

// Tx is a transaction of the caller: a [pgx.Tx], or a [pgx.Conn] inside a transaction.
type Tx interface {
	// Exec is the method of pgx.
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// PutTx puts an event in a transaction of the caller. The event is in the inbox if the transaction
// commits. Workers take it within Poll. For a known event, PutTx returns [webhook.ErrDuplicate], and
// the transaction can continue. PutTx waits for another transaction that puts the same event: at
// REPEATABLE READ or SERIALIZABLE, a commit of that transaction is a serialization failure, after
// which the caller repeats its transaction.
func (b *Inbox) PutTx(ctx context.Context, tx Tx, event *webhook.Event) error {
	arguments, err := b.putArguments(event)
	if err != nil {
		return err
	}
	tag, err := tx.Exec(ctx, b.sql(putEvent), arguments...)
	if err == nil && tag.RowsAffected() == 0 {
		err = webhook.ErrDuplicate
	}
	return err
}

// Take implements [webhook.Inbox].
func (b *Inbox) Take(ctx context.Context) (*webhook.InboxEntry, error) {
	return b.claims().Take(ctx, false)
}

// A claim is a random number, so an old claim never matches a new claim, even after the database
// has lost data.
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
		err = errors.New("lendingpostgres: the entry is of another inbox; return it to the inbox that Take was called on")
	}
	return id, claim, err
}

// Done implements [webhook.Inbox]. Done removes a handled event even after the end of its claim.
// Another worker may be handling the event at that time, but no worker takes it afterwards.
func (b *Inbox) Done(ctx context.Context, entry *webhook.InboxEntry) error {
	id, _, err := ofID(entry)
	if err != nil {
		return err
	}
	_, err = b.exec(ctx, "DELETE FROM {inbox} WHERE id = $1::bigint AND name = $2::text AND due IS NOT NULL", id, b.name)
	return err
}

// ofClaim limits a statement to an event that is still claimed by the caller.
const ofClaim = " WHERE id = $1::bigint AND name = $2::text AND claim = $3::bigint"

// Retry implements [webhook.Inbox].
func (b *Inbox) Retry(ctx context.Context, entry *webhook.InboxEntry, wait time.Duration) error {
	err := b.endClaim(ctx, entry, "UPDATE {inbox} SET claim = NULL, due = pg_catalog.clock_timestamp() + $4::interval"+ofClaim, wait)
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
	return err
}

// Counts implements [webhook.Inbox]. Counts reads all rows of the inbox.
func (b *Inbox) Counts(ctx context.Context) (counts webhook.InboxCounts, err error) {
	err = b.queryRow(ctx, []any{&counts.Waiting, &counts.Running, &counts.DeadLetters}, `
SELECT pg_catalog.count(*) FILTER (WHERE due IS NOT NULL AND claim IS NULL),
	pg_catalog.count(*) FILTER (WHERE due IS NOT NULL AND claim IS NOT NULL), pg_catalog.count(*) FILTER (WHERE due IS NULL)
FROM {inbox} WHERE name = $1::text`, b.name)
	return counts, err
}

// Ages implements [webhook.Inbox].
func (b *Inbox) Ages(ctx context.Context) (ages webhook.InboxAges, err error) {
	err = b.queryRow(ctx, []any{&ages.Due, &ages.DeadLetter}, `
SELECT coalesce(now - (SELECT due FROM {inbox} WHERE name = $1::text AND due <= now AND claim IS NULL ORDER BY due, id LIMIT 1), '0'),
	greatest(now - (SELECT set_aside FROM {inbox} WHERE name = $1::text AND due IS NULL ORDER BY set_aside, id LIMIT 1), '0')
FROM (SELECT pg_catalog.clock_timestamp() AS now) AS moment`, b.name)
	return ages, err
}

// Ready implements [webhook.Inbox]. A standby server is not ready, nor is a server that does not answer within 10 s.
func (b *Inbox) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var readOnly, empty bool
	err := b.queryRow(ctx, []any{&readOnly, &empty},
		"SELECT pg_catalog.current_setting('transaction_read_only')::boolean, NOT EXISTS (SELECT FROM {inbox})")
	if err == nil && readOnly {
		err = errors.New("the database is read only")
	}
	if err != nil {
		return fmt.Errorf("lendingpostgres: the inbox is not ready: %w; check the database, and call Migrate", err)
	}
	return nil
}
