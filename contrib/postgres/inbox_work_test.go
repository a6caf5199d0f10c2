package lendingpostgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/webhooktest"
	"github.com/lendingapi/lending-go/webhook"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	lendingpostgres "github.com/lendingapi/lending-go/contrib/postgres"
)

// The writes of a function and the end of its event happen together, whatever happens to the
// function, the connection and the COMMIT. The reports tell the truth.
func TestWorkTx(t *testing.T) {
	url := withTraps(t)
	type act func(w *txTest, tx pgx.Tx, call int32) error
	terminate := func(w *txTest, tx pgx.Tx) {
		_, err := w.pool.Exec(w.t.Context(), "SELECT pg_terminate_backend($1)", tx.Conn().PgConn().PID())
		require.NoError(w.t, err)
	}
	for _, test := range []struct {
		name    string
		act     act
		calls   int32
		reports []string // of tries, "" for a success
	}{
		{"it succeeds", func(*txTest, pgx.Tx, int32) error { return nil }, 1, []string{""}},
		{"it knows the event, and the answer of the COMMIT is lost", func(w *txTest, _ pgx.Tx, _ int32) error {
			w.proxy.answers.Store(1)
			return webhook.ErrDuplicate
		}, 1, []string{"accepted before"}},
		{"it fails", func(w *txTest, _ pgx.Tx, call int32) error {
			if call == 1 {
				return errors.New("a failure")
			}
			return nil
		}, 2, []string{"a failure", ""}},
		{"it panics", func(w *txTest, _ pgx.Tx, call int32) error {
			if call == 1 {
				panic("here")
			}
			return nil
		}, 2, []string{"panicked", ""}},
		{"it does not mind a statement that failed", func(w *txTest, tx pgx.Tx, call int32) error {
			if call == 1 {
				_, err := tx.Exec(w.t.Context(), "SELECT 1/0")
				assert.Error(w.t, err)
			}
			return nil
		}, 2, []string{"rollback", ""}},
		{"it commits", func(w *txTest, tx pgx.Tx, _ int32) error { return tx.Commit(w.t.Context()) }, 1, []string{""}},
		{"it rolls back", func(w *txTest, tx pgx.Tx, call int32) error {
			if call == 1 {
				return tx.Rollback(w.t.Context())
			}
			return nil
		}, 2, []string{"the function has ended the transaction", ""}},
		{"a serialization failure", func(w *txTest, tx pgx.Tx, call int32) error {
			if call == 1 {
				_, err := tx.Exec(w.t.Context(), "DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '40001'; END $$")
				return err
			}
			return nil
		}, 2, []string{""}},
		{"a deadlock each time", func(w *txTest, tx pgx.Tx, call int32) error {
			if call <= 4 {
				_, err := tx.Exec(w.t.Context(), "DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '40P01'; END $$")
				return err
			}
			return nil
		}, 5, []string{"40P01", ""}},
		{"a constraint that the COMMIT finds broken", func(w *txTest, tx pgx.Tx, call int32) error {
			if call == 1 {
				_, err := tx.Exec(w.t.Context(), "INSERT INTO refused VALUES (1), (1)")
				return err
			}
			return nil
		}, 2, []string{"23505", ""}},
		{"the connection is cut before the COMMIT", func(w *txTest, tx pgx.Tx, call int32) error {
			if call == 1 {
				terminate(w, tx)
			}
			return nil
		}, 2, []string{""}},
		{"the COMMIT does not arrive", func(w *txTest, _ pgx.Tx, call int32) error {
			if call == 1 {
				w.proxy.requests.Store(1)
			}
			return nil
		}, 2, []string{""}},
		{"the answer of the COMMIT is lost", func(w *txTest, _ pgx.Tx, _ int32) error {
			w.proxy.answers.Store(1)
			return nil
		}, 1, []string{""}},
		{"the COMMIT ends after the connection", func(w *txTest, tx pgx.Tx, _ int32) error {
			_, err := tx.Exec(w.t.Context(), "INSERT INTO slow VALUES (1)")
			w.cutInCommit(tx)
			return err
		}, 1, []string{""}},
		{"the COMMIT fails after the connection", func(w *txTest, tx pgx.Tx, call int32) error {
			if call > 1 {
				return nil
			}
			_, err := tx.Exec(w.t.Context(), "INSERT INTO slow VALUES (0)")
			w.cutInCommit(tx)
			return err
		}, 2, []string{""}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w, e := newTxTest(t, url), event(lending.EventName(test.name))
			require.NoError(t, w.inbox.Put(t.Context(), e))
			reports := w.work(t, func(ctx context.Context, tx pgx.Tx, e *webhook.Event) error {
				require.NoError(t, insert(ctx, tx, e))
				return test.act(w, tx, w.calls.Add(1))
			})
			assert.Equal(t, 1, w.effects(e))
			assert.Equal(t, test.calls, w.calls.Load(), "calls")
			webhooktest.WantCounts(t, w.inbox, webhook.InboxCounts{})
			if assert.Len(t, reports, len(test.reports), "%v", reports) {
				for i, err := range reports {
					if test.reports[i] == "" {
						assert.NoError(t, err)
					} else {
						assert.ErrorContains(t, err, test.reports[i])
					}
				}
			}
			assert.Zero(t, w.proxy.requests.Load()+w.proxy.answers.Load(), "nothing was broken off")
		})
	}
}

// txTest is an inbox behind a proxy, and a table for effects.
type txTest struct {
	t     *testing.T
	proxy *proxy
	pool  *pgxpool.Pool // past the proxy
	inbox *lendingpostgres.Inbox
	calls atomic.Int32

	once    bool          // the worker ends after a try, or else when an event was handled or set aside
	timeout time.Duration // of a try
}

func newTxTest(t *testing.T, url string, change ...func(*pgxpool.Config)) *txTest {
	t.Helper()
	w := &txTest{t: t, proxy: newProxy(t, url), pool: connect(t, url)}
	w.inbox = fake.Must(lendingpostgres.NewInbox(connect(t, w.proxy.url, change...), t.Name(), nil))
	return w
}

// insert has the effect of an event.
func insert(ctx context.Context, tx pgx.Tx, e *webhook.Event) error {
	_, err := tx.Exec(ctx, "INSERT INTO effects VALUES ($1)", e.Key())
	return err
}

func (w *txTest) effects(e *webhook.Event) (n int) {
	w.t.Helper()
	row := w.pool.QueryRow(w.t.Context(), "SELECT count(*) FROM effects WHERE key = $1", e.Key())
	require.NoError(w.t, row.Scan(&n))
	return n
}

// withTraps creates tables that fail or wait during the COMMIT.
func withTraps(t *testing.T) (url string) {
	t.Helper()
	url = withEffects(t, database(t))
	_, err := connect(t, url).Exec(t.Context(), `
		CREATE TABLE refused (n int UNIQUE DEFERRABLE INITIALLY DEFERRED);
		CREATE TABLE slow (n int);
		CREATE FUNCTION slowly() RETURNS trigger LANGUAGE plpgsql AS $$
			BEGIN -- also when the client asks to cancel it
				LOOP
					BEGIN PERFORM pg_sleep(0.6); EXIT; EXCEPTION WHEN query_canceled THEN NULL; END;
				END LOOP;
				PERFORM 1 / new.n;
				RETURN new;
			END $$;
		CREATE CONSTRAINT TRIGGER slowly AFTER INSERT ON slow DEFERRABLE INITIALLY DEFERRED
		FOR EACH ROW EXECUTE FUNCTION slowly()`)
	require.NoError(t, err)
	return url
}

// cutInCommit cuts the connection of a transaction during the COMMIT.
func (w *txTest) cutInCommit(tx pgx.Tx) {
	pid, conn := tx.Conn().PgConn().PID(), tx.Conn().PgConn().Conn()
	go func() {
		for sleeps := false; !sleeps && w.t.Context().Err() == nil; {
			_ = w.pool.QueryRow(w.t.Context(),
				"SELECT coalesce(wait_event = 'PgSleep', false) FROM pg_stat_activity WHERE pid = $1",
				pid).Scan(&sleeps)
		}
		_ = conn.Close()
	}()
}

// work runs the worker, and returns the report of each try.
func (w *txTest) work(t *testing.T, handle lendingpostgres.TxFunc) (reports []error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w.inbox.WorkTx(ctx, handle, &webhook.WorkOptions{
		Concurrency: 1, MaxTries: 5, Backoff: func(int) time.Duration { return time.Millisecond }, Timeout: w.timeout,
		Observe: func(r webhook.Result) {
			if r.Key == "" {
				return // an error of the inbox after the try
			}
			reports = append(reports, r.Err)
			if w.once || r.DeadLettered || r.Err == nil || errors.Is(r.Err, webhook.ErrDuplicate) {
				cancel()
			}
		},
	})
	return reports
}

// A worker does not handle an event that another worker has taken in between, in any
// mode of pgx.
func TestWorkTxWithoutItsClaim(t *testing.T) {
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			w, a := newTxTest(t, withEffects(t, database(t)), func(c *pgxpool.Config) {
				c.ConnConfig.DefaultQueryExecMode = mode
			}), event("a")
			w.once = true
			require.NoError(t, w.inbox.Put(t.Context(), a))
			reports := w.work(t, func(ctx context.Context, tx pgx.Tx, e *webhook.Event) error {
				assert.Equal(t, int32(1), w.calls.Add(1), "another call")
				require.NoError(t, insert(ctx, tx, e))
				// Between this transaction and the next, another worker takes the event.
				require.NoError(t, tx.Rollback(ctx))
				_, err := w.pool.Exec(ctx, "UPDATE lending_inbox SET claim = 1, due = now() + interval '1 hour'")
				require.NoError(t, err)
				require.NoError(t, tx.Conn().Close(ctx))
				return errors.New("the connection is cut")
			})
			require.Len(t, reports, 1)
			require.ErrorContains(t, reports[0], "another worker has taken the event")
			webhooktest.WantCounts(t, w.inbox, webhook.InboxCounts{Running: 1})
			var tries int
			require.NoError(t,
				w.pool.QueryRow(t.Context(), "SELECT tries FROM lending_inbox WHERE claim = 1").Scan(&tries))
			require.Equal(t, 1, tries)
			require.Zero(t, w.effects(a))
		})
	}
}

// If the server does not tell the outcome of a COMMIT, the error says that the outcome is
// unknown.
func TestWorkTxDoesNotGuess(t *testing.T) {
	t.Parallel()
	w, a := newTxTest(t, withEffects(t, database(t))), event("a")
	w.inbox = inboxOf(connect(t, w.proxy.url), &lendingpostgres.InboxOptions{Lease: 3 * time.Second})
	w.once = true
	require.NoError(t, w.inbox.Put(t.Context(), a))
	reports := w.work(t, func(ctx context.Context, tx pgx.Tx, e *webhook.Event) error {
		err := insert(ctx, tx, e)
		w.proxy.answers.Store(1 << 30) // for good
		return err
	})
	require.Len(t, reports, 1)
	require.ErrorContains(t, reports[0], "it is not known whether the transaction was committed")
	w.proxy.answers.Store(0)
	webhooktest.WantCounts(t, w.inbox, webhook.InboxCounts{})
	require.Equal(t, 1, w.effects(a))
}

// The transactions have the options of the inbox.
func TestWorkTxIsolation(t *testing.T) {
	for _, tt := range []struct {
		name    string
		options pgx.TxOptions
		want    string
	}{
		{"none", pgx.TxOptions{}, "read committed off"},
		{
			"all", pgx.TxOptions{
				IsoLevel: pgx.Serializable, AccessMode: pgx.ReadWrite, DeferrableMode: pgx.Deferrable,
			}, "serializable on",
		},
		{"mode", pgx.TxOptions{DeferrableMode: pgx.Deferrable}, "read committed on"},
		{"statements", pgx.TxOptions{
			BeginQuery: "START TRANSACTION ISOLATION LEVEL REPEATABLE READ", CommitQuery: "END",
		}, "repeatable read off"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newTxTest(t, withEffects(t, database(t)))
			w.inbox = inboxOf(w.pool, &lendingpostgres.InboxOptions{Tx: tt.options})
			require.NoError(t, w.inbox.Put(t.Context(), event("a")))
			require.Equal(t, []error{nil}, w.work(t, func(ctx context.Context, tx pgx.Tx, _ *webhook.Event) error {
				var level, deferrable string
				assert.NoError(t, tx.QueryRow(ctx, "SHOW transaction_isolation").Scan(&level))
				assert.NoError(t, tx.QueryRow(ctx, "SHOW transaction_deferrable").Scan(&deferrable))
				assert.Equal(t, tt.want, level+" "+deferrable)
				return nil
			}))
			webhooktest.WantCounts(t, w.inbox, webhook.InboxCounts{})
		})
	}
}

// If the server has forgotten the prepared removal, for example behind a pooler, the event is
// handled within the same try.
func TestWorkTxPreparesAgain(t *testing.T) {
	w := newTxTest(t, withEffects(t, database(t)), func(c *pgxpool.Config) {
		c.MaxConns = 3
		c.AfterRelease = func(conn *pgx.Conn) bool {
			_, err := conn.Exec(context.WithoutCancel(t.Context()), `DO $$ DECLARE removal text; BEGIN
				FOR removal IN SELECT name FROM pg_prepared_statements WHERE statement LIKE 'DELETE%' LOOP
					EXECUTE 'DEALLOCATE ' || removal;
				END LOOP; END $$`)
			return err == nil
		}
	})
	for i := range 4 { // one more than connections
		require.NoError(t, w.inbox.Put(t.Context(), event(lending.EventName(fmt.Sprint(i)))))
		require.Equal(t, []error{nil},
			w.work(t, func(context.Context, pgx.Tx, *webhook.Event) error { return nil }))
	}
}

// A function that finishes in time is committed, even if its context ends afterwards.
func TestWorkTxCommitsAfterTheDeadline(t *testing.T) {
	w, a := newTxTest(t, withEffects(t, database(t))), event("a")
	w.timeout = 2 * time.Second
	require.NoError(t, w.inbox.Put(t.Context(), a))
	require.Equal(t, []error{nil}, w.work(t, func(ctx context.Context, tx pgx.Tx, e *webhook.Event) error {
		err := insert(ctx, tx, e)
		<-ctx.Done()
		return err
	}))
	webhooktest.WantCounts(t, w.inbox, webhook.InboxCounts{})
	require.Equal(t, 1, w.effects(a))
}

// The pool always keeps connections to put events, whatever Concurrency is.
func TestWorkTxLeavesConnections(t *testing.T) {
	url := withEffects(t, database(t))
	pool := connect(t, url, func(c *pgxpool.Config) { c.MaxConns = 4 })
	inbox := inboxOf(pool, nil)
	for n := range 4 {
		require.NoError(t, inbox.Put(t.Context(), event(lending.EventName(fmt.Sprint(n)))))
	}
	ctx, cancel := context.WithCancel(t.Context())
	began, release, ended := make(chan struct{}, 100), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		inbox.WorkTx(ctx, func(context.Context, pgx.Tx, *webhook.Event) error {
			began <- struct{}{}
			<-release
			return nil
		}, nil)
	}()
	defer func() {
		cancel()
		close(release)
		<-ended
	}()
	<-began
	<-began
	putting, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	for n := range 50 {
		require.NoError(t, inbox.Put(putting, event(lending.EventName(fmt.Sprint("beside ", n)))))
	}
	require.Empty(t, began)
}
