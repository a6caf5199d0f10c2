package lendingpostgres

import (
	"context"
	"crypto/sha256"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/lendingapi/lending-go/webhook"
)

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
