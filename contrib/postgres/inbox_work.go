package lendingpostgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go/internal/backoff"
	"github.com/lendingapi/lending-go/webhook"
)

// TxFunc handles an event in the transaction that removes the event: see [Inbox.WorkTx].
type TxFunc func(ctx context.Context, tx pgx.Tx, event *webhook.Event) error

// WorkTx is [webhook.Work] with a transaction. WorkTx removes the event from the inbox and calls
// handle in the same transaction, which commits both or neither. Each event therefore has its
// effect in this database exactly once, even if processes or the server die.
//
// Effects outside the database can happen more than once. The service can send an event again
// with another time, and therefore with another key: a unique constraint in a table of yours
// recognizes the event by an identifier in its data.
//
// # Errors
//
// If handle fails or panics, WorkTx rolls back and counts a try. After a serialization failure,
// a deadlock or a broken connection, WorkTx calls handle again within the same try, up to four
// times. The same happens if handle leaves rows open, or if its own shorter deadline closes the
// connection.
//
// If the connection breaks during the COMMIT, WorkTx reads from the server whether the
// transaction was committed. If so, the event is done, otherwise handle runs again. If the
// server does not answer before the end of the claim, the [webhook.Result] says that the outcome
// is unknown; the effect still happens exactly once. Such a server can hold a worker for up to
// nine tenths of Lease.
//
// An event that ends the process becomes a dead letter in the end, because WorkTx commits each
// claim before it calls handle.
//
// # Connections
//
// Concurrency is at most MaxConns of the pool less two, and at least 1. With a pool of 4, the
// default of pgx on a small machine, WorkTx handles two events at a time.
//
// handle must not end the transaction. For a schema, a role or another setting of the event, use
// SET LOCAL, which ends with the transaction: SET stays on the connection, for its next user.
//
// While handle runs, its open transaction delays vacuum. An idle_in_transaction_session_timeout, or the
// transaction_timeout of PostgreSQL 17, may end it: then the try has failed.
func (b *Inbox) WorkTx(ctx context.Context, handle TxFunc, opts *webhook.WorkOptions) {
	w := &txWork{Inbox: b, handle: handle}
	webhook.Work(ctx, w, w.act, b.fitting(opts))
}

// fitting returns the options with the Concurrency that leaves two connections to take and put
// events. With all connections in transactions, no transaction would end in time.
func (b *Inbox) fitting(opts *webhook.WorkOptions) *webhook.WorkOptions {
	o := *cmp.Or(opts, new(webhook.WorkOptions))
	if o.Concurrency <= 0 {
		o.Concurrency = 4 // the default of webhook.Work
	}
	o.Concurrency = max(1, min(o.Concurrency, int(b.pool().Config().MaxConns)-2))
	return &o
}

// txWork is the inbox that WorkTx passes to [webhook.Work].
type txWork struct {
	*Inbox
	handle TxFunc
	taken  sync.Map // from a *webhook.Event to its *txEntry
}

type txEntry struct {
	*webhook.InboxEntry
	ended bool // the transaction is committed
}

func (w *txWork) Take(ctx context.Context) (*webhook.InboxEntry, error) {
	entry, err := w.claims().Take(ctx, true)
	if err == nil {
		w.taken.Store(entry.Event, &txEntry{InboxEntry: entry})
	}
	return entry, err
}

// forget reports whether the transaction of an entry has ended the event.
func (w *txWork) forget(entry *webhook.InboxEntry) (ended bool) {
	taken, known := w.taken.LoadAndDelete(entry.Event)
	return known && taken.(*txEntry).ended
}

func (w *txWork) Done(ctx context.Context, entry *webhook.InboxEntry) error {
	if w.forget(entry) {
		return nil
	}
	return w.Inbox.Done(ctx, entry)
}

func (w *txWork) Retry(ctx context.Context, entry *webhook.InboxEntry, wait time.Duration) error {
	w.forget(entry)
	return w.Inbox.Retry(ctx, entry, wait)
}

func (w *txWork) DeadLetter(ctx context.Context, entry *webhook.InboxEntry, cause error) error {
	w.forget(entry)
	return w.Inbox.DeadLetter(ctx, entry, cause)
}

func (w *txWork) act(ctx context.Context, event *webhook.Event) error {
	taken, _ := w.taken.Load(event)
	entry := taken.(*txEntry)
	id, claim, err := ofID(entry.InboxEntry)
	if err != nil {
		return err
	}
	var said error // returned by handle, with a commit
	err = w.retry(ctx, func(conn *pgxpool.Conn) error {
		tx, err := w.begin(ctx, conn, id, claim)
		if err != nil {
			return err
		}
		err = w.handle(ctx, tx, event) // a panic closes the connection, which rolls back
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if err != nil && !errors.Is(err, webhook.ErrDuplicate) { // a success
			_ = tx.Rollback(ctx)
			return err
		}
		if failed := w.commit(ctx, conn, tx, entry.InboxEntry); failed != nil {
			return failed
		}
		entry.ended, said = true, err
		return nil
	})
	if err == nil {
		err = said
	}
	return err
}

// begin begins a transaction and removes the event, in a single round trip. The removal proves that
// the claim still holds, and locks the row until the end of the transaction, even if the function
// ends the transaction early.
func (w *txWork) begin(ctx context.Context, conn *pgxpool.Conn, id, claim int64) (pgx.Tx, error) {
	removed := false
	var batch pgx.Batch
	batch.BeginTx(w.options.Tx)
	batch.Queue(w.sql("DELETE FROM {inbox} WHERE id = $1::bigint AND claim = $2::bigint"), id, claim).
		Exec(func(tag pgconn.CommandTag) error {
			removed = tag.RowsAffected() > 0
			return nil
		})
	results := conn.SendBatch(ctx, &batch)
	err := results.Close()
	switch {
	case err == nil && !removed:
		err = errClaimLost
	case stateOf(err) == unknownStatement: // a pooler has changed the session; pgx prepares the statement again
		err = errAgain
	}
	if err != nil {
		_ = results.Tx().Rollback(ctx)
		return nil, err
	}
	return results.Tx(), nil
}

const unknownStatement = "26000" // SQLSTATE

var errClaimLost = errors.New("lendingpostgres: another worker has taken the event, or the event is done")

// commit returns nil if the transaction was committed.
func (w *txWork) commit(ctx context.Context, conn *pgxpool.Conn, tx pgx.Tx, entry *webhook.InboxEntry) error {
	failed := errors.New("lendingpostgres: the function has ended the transaction; leave that to WorkTx")
	switch conn.Conn().PgConn().TxStatus() {
	case 'T':
		failed = tx.Commit(ctx)
	case 'E': // the server would answer a COMMIT with a rollback
		failed = pgx.ErrTxCommitRollback
	}
	if failed == nil {
		return nil
	}
	_ = tx.Rollback(ctx) // in case the COMMIT was not sent
	there, err := w.there(ctx, entry)
	switch {
	case err != nil:
		return fmt.Errorf("lendingpostgres: it is not known whether the transaction was committed; if not, the event is tried again: %w", errors.Join(errors.New(failed.Error()), err))
	case there:
		return failed
	}
	return nil
}

// there reports whether an event is in the inbox. The query waits for the transaction that
// removes the event: the server may not have noticed yet that its connection broke.
func (w *txWork) there(ctx context.Context, entry *webhook.InboxEntry) (there bool, err error) {
	id, _, err := ofID(entry)
	if err != nil {
		return false, err
	}
	until := time.Now().Add(10 * time.Second)
	if entry.Until.After(until) {
		until = entry.Until
	}
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), until)
	defer cancel()
	for {
		rows, err := w.exec(ctx, "SELECT FROM {inbox} WHERE id = $1::bigint AND name = $2::text FOR UPDATE", id, w.name)
		if err == nil || ctx.Err() != nil {
			return rows > 0, err
		}
		_ = backoff.Sleep(ctx, rand.N(time.Second))
	}
}
