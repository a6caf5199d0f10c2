package lendingpostgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go/internal/backoff"
	"github.com/lendingapi/lending-go/webhook"
)

// TxFunc acts on an event in the transaction in which the event ends: see [Inbox.WorkTx].
type TxFunc func(ctx context.Context, tx pgx.Tx, event *webhook.Event) error

// WorkTx is [webhook.Work] with a function that has a transaction. In it the event is
// removed from the inbox, so that what handle writes and the end of the event are committed
// together, or not at all: in this database each event has its effect once, whatever process
// or server ends when. What handle does elsewhere it may do again. Do not put [webhook.Once] or
// [webhook.OnceBy] inside handle: what they record is not rolled back with it; use a unique
// constraint in a table of yours.
//
// handle leaves the end of the transaction to WorkTx. If it fails or panics all is rolled back,
// and that was a try. It is called again, and that is none, after a serialization failure, a
// deadlock or the loss of the connection, up to four times in one try: so it is too when it
// leaves rows open, or when a shorter deadline of its own closes the connection. When the connection breaks in the COMMIT
// WorkTx waits until the server knows what became of it, and reads that: what was committed is
// reported as acted on, and what was not is done again. Only a server that does not answer
// until the claim ends leaves it open, which [webhook.Result] then says; the effect is there
// once even so. A server that is gone holds a worker until then: a tenth short of Lease.
//
// Concurrency is at most the pool's MaxConns less two, and at least one: with a pool that
// has 4, as pgx makes it on a small machine, two events are acted on at a time.
//
// handle may change settings: after each transaction WorkTx resets the session and calls the pool's
// AfterConnect again, so that no SET stays on the connection. A schema or a role of the event is
// best set with SET LOCAL, which ends with the transaction.
//
// That an event was taken is committed before, so that one that ends processes is set aside in
// the end. While handle runs its transaction is open: in the way of vacuum, and of an
// idle_in_transaction_session_timeout.
func (b *Inbox) WorkTx(ctx context.Context, handle TxFunc, opts *webhook.WorkOptions) {
	w := &txWork{Inbox: b, handle: handle, reset: resetOf(b.pool().Config()), taken: map[*webhook.Event]*txEntry{}}
	webhook.Work(ctx, w, w.act, b.fitting(opts))
}

// fitting returns the options with no more workers than leave two connections for those that
// take and put events: a pool that is all in transactions ends none of them in time.
func (b *Inbox) fitting(opts *webhook.WorkOptions) *webhook.WorkOptions {
	var o webhook.WorkOptions
	if opts != nil {
		o = *opts
	}
	if o.Concurrency <= 0 {
		o.Concurrency = 4 // as webhook.Work has it
	}
	o.Concurrency = max(1, min(o.Concurrency, int(b.pool().Config().MaxConns)-2))
	return &o
}

// txWork is the inbox as [webhook.Work] has it for WorkTx.
type txWork struct {
	*Inbox
	handle TxFunc
	reset  func(ctx context.Context, conn *pgx.Conn) error

	mu    sync.Mutex
	taken map[*webhook.Event]*txEntry
}

type txEntry struct {
	*webhook.InboxEntry
	ended bool // by its transaction
}

func (w *txWork) Take(ctx context.Context) (*webhook.InboxEntry, error) {
	entry, err := w.claims().Take(ctx, true)
	if err == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.taken[entry.Event] = &txEntry{InboxEntry: entry}
	}
	return entry, err
}

func (w *txWork) of(event *webhook.Event) *txEntry {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.taken[event]
}

// forget returns whether the transaction of an entry has ended it.
func (w *txWork) forget(entry *webhook.InboxEntry) (ended bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.taken[entry.Event]
	delete(w.taken, entry.Event)
	return e != nil && e.ended
}

func (w *txWork) Done(ctx context.Context, entry *webhook.InboxEntry) error {
	if w.forget(entry) {
		return w.claims().Ended(entry.ID, nil)
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
	entry := w.of(event)
	id, claim, err := ofID(entry.InboxEntry)
	if err != nil {
		return err
	}
	var said error // by handle, of what is committed
	err = w.retry(ctx, func(conn *pgxpool.Conn) error {
		defer w.clean(ctx, conn.Conn())
		tx, err := conn.BeginTx(ctx, w.options.Tx)
		if err != nil {
			return err
		}
		// The end of the event comes first: it says whether the claim holds, and keeps others from the
		// row until the end of the transaction, however handle ends that.
		tag, err := tx.Exec(ctx, w.sql("DELETE FROM {inbox}"+ofClaim), id, w.name, claim)
		if err == nil && tag.RowsAffected() == 0 {
			err = errClaimLost
		}
		if err == nil {
			err = w.handle(ctx, tx, event) // after a panic the connection is closed, which rolls back
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if err != nil && !errors.Is(err, webhook.ErrDuplicate) && !errors.Is(err, webhook.ErrNotRecorded) { // which are successes
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

// clean leaves no setting of the function's on the connection, which goes back to the pool. A
// connection that is in a transaction still is closed by the pool.
func (w *txWork) clean(ctx context.Context, conn *pgx.Conn) {
	if conn.IsClosed() || conn.PgConn().TxStatus() != 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if w.reset(ctx, conn) != nil {
		_ = conn.Close(ctx)
	}
}

// resetOf returns what gives a session the settings that the pool gives a new one. PgBouncer knows
// those of the connection string as SET, which RESET undoes.
func resetOf(pool *pgxpool.Config) func(ctx context.Context, conn *pgx.Conn) error {
	statements := []string{"RESET SESSION AUTHORIZATION", "RESET ROLE", "RESET ALL"}
	for name, value := range pool.ConnConfig.RuntimeParams {
		if name != "options" {
			quoted := strings.NewReplacer("'", "''", `\`, `\\`).Replace(value)
			statements = append(statements, "SET "+pgx.Identifier{name}.Sanitize()+" = E'"+quoted+"'")
		}
	}
	reset := strings.Join(statements, "; ")
	return func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, reset, pgx.QueryExecModeSimpleProtocol)
		if err == nil && pool.AfterConnect != nil {
			err = pool.AfterConnect(ctx, conn)
		}
		return err
	}
}

var errClaimLost = fmt.Errorf("lendingpostgres: another has taken the event, or it is done: %w", webhook.ErrClaimed)

// commit returns nil if the transaction was committed.
func (w *txWork) commit(ctx context.Context, conn *pgxpool.Conn, tx pgx.Tx, entry *webhook.InboxEntry) error {
	failed := errors.New("lendingpostgres: the function has ended the transaction")
	if conn.Conn().PgConn().TxStatus() != 'I' {
		failed = tx.Commit(ctx)
	}
	if failed == nil {
		return nil
	}
	_ = tx.Rollback(ctx) // what was not sent
	there, err := w.there(ctx, entry)
	switch {
	case err != nil:
		return fmt.Errorf("lendingpostgres: whether the transaction was committed is not known: %w", errors.Join(errors.New(failed.Error()), err))
	case there:
		return failed
	}
	return nil
}

// there reports whether an event is in the inbox. It waits for the transaction that removes
// it, of which the server may not know yet that nobody is there.
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
