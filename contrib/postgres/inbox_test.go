package lendingpostgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/webhooktest"
	"github.com/lendingapi/lending-go/webhook"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	lendingpostgres "github.com/lendingapi/lending-go/contrib/postgres"
)

func event(name lending.EventName) *webhook.Event { return &webhook.Event{Name: name} }

// inboxOf returns an inbox with valid options.
func inboxOf(pool *pgxpool.Pool, options *lendingpostgres.InboxOptions) *lendingpostgres.Inbox {
	return must(lendingpostgres.NewInbox(pool, "test", options))
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func counts(t *testing.T, inbox *lendingpostgres.Inbox) webhook.InboxCounts {
	t.Helper()
	counts, err := inbox.Counts(t.Context())
	require.NoError(t, err)
	return counts
}

// An event from a transaction is in the inbox if and when the transaction commits.
func TestPutTx(t *testing.T) {
	pool := migrated(t)
	inbox := inboxOf(pool, &lendingpostgres.InboxOptions{Poll: 50 * time.Millisecond, Notify: true})
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	require.NoError(t, inbox.PutTx(t.Context(), tx, event("a")))
	require.ErrorIs(t, inbox.PutTx(t.Context(), tx, event("a")), webhook.ErrDuplicate)
	require.Error(t, inbox.PutTx(t.Context(), tx, event("")), "no event")
	webhooktest.Take(t, inbox, "")
	waited := make(chan error)
	go func() { waited <- inbox.Put(t.Context(), event("a")) }()
	require.NoError(t, inbox.PutTx(t.Context(), tx, event("b")), "the transaction goes on")
	require.NoError(t, tx.Rollback(t.Context()))
	require.NoError(t, <-waited, "an event that was rolled back is no duplicate")
	require.NoError(t, inbox.Done(t.Context(), webhooktest.Take(t, inbox, "a")))
	webhooktest.Take(t, inbox, "")
	require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		require.ErrorIs(t, inbox.PutTx(t.Context(), tx, event("a")), webhook.ErrDuplicate)
		return inbox.PutTx(t.Context(), tx, event("b"))
	}))
	webhooktest.Take(t, inbox, "b")
	require.ErrorIs(t, inbox.Put(t.Context(), event("b")), webhook.ErrDuplicate)
}

func TestInboxPutsAsideWhatIsNoEvent(t *testing.T) {
	pool := migrated(t)
	inbox := inboxOf(pool, nil)
	_, err := pool.Exec(t.Context(), "INSERT INTO lending_inbox (name, due, body) VALUES ('test', now(), '{{{')")
	require.NoError(t, err)
	require.NoError(t, inbox.Put(t.Context(), event("a")))
	webhooktest.SetsAsideWhatIsNoEvent(t, inbox)
}

// Events of dead processes are taken at the end of their claims, not at the next Poll.
func TestInboxTakesAllThatIsStuck(t *testing.T) {
	inbox := inboxOf(migrated(t), &lendingpostgres.InboxOptions{Lease: 500 * time.Millisecond, Poll: time.Hour})
	for i := range 20 {
		require.NoError(t, inbox.Put(t.Context(), event(lending.EventName(rune('a'+i)))))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 20 {
		_, err := inbox.Take(ctx)
		require.NoError(t, err)
	}
	for range 20 {
		entry, err := inbox.Take(ctx)
		require.NoError(t, err)
		require.NoError(t, inbox.Done(ctx, entry))
		require.Equal(t, 2, entry.Tries)
	}
}

// A key is known for Keep. Then the inbox deletes the key, with many others at a time.
func TestInboxForgets(t *testing.T) {
	pool := migrated(t)
	inbox := inboxOf(pool, &lendingpostgres.InboxOptions{Keep: time.Hour, Poll: 10 * time.Millisecond})
	require.NoError(t, inbox.Put(t.Context(), event("a")))
	require.NoError(t, inbox.Put(t.Context(), event("b")))
	require.NoError(t, inbox.Done(t.Context(), webhooktest.Take(t, inbox, "a")))
	require.ErrorIs(t, inbox.Put(t.Context(), event("a")), webhook.ErrDuplicate)
	_, err := pool.Exec(t.Context(), "UPDATE lending_inbox_seen SET at = at - interval '61 min'")
	require.NoError(t, err)
	require.NoError(t, inbox.Put(t.Context(), event("a")), "it is forgotten, though not deleted")
	require.ErrorIs(t, inbox.Put(t.Context(), event("a")), webhook.ErrDuplicate)

	_, err = pool.Exec(t.Context(), `INSERT INTO lending_inbox_seen
		SELECT name, sha256(convert_to(n::text || age, 'UTF8')), now() - age
		FROM generate_series(1, 2500) n, (VALUES ('test', interval '61 min'),
			('test ', interval '61 min'), ('test', interval '59 min')) AS old (name, age)`)
	require.NoError(t, err)
	left := func(name string) (n int) {
		require.NoError(t,
			pool.QueryRow(t.Context(),
				"SELECT count(*) FROM lending_inbox_seen WHERE name = $1 AND at < now() - interval '1 hour'",
				name).Scan(&n))
		return n
	}
	require.GreaterOrEqual(t, left("test"), 2500)
	next := inboxOf(pool, &lendingpostgres.InboxOptions{Keep: time.Hour, Poll: 10 * time.Millisecond})
	waiting, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _ = lendingTakes(waiting, next) }()
	require.Eventually(t, func() bool { return left("test") == 0 }, time.Minute, 10*time.Millisecond)
	require.Equal(t, 2500, left("test "), "of another inbox")
	var known int
	require.NoError(t, pool.QueryRow(t.Context(),
		"SELECT count(*) FROM lending_inbox_seen WHERE name = 'test' AND octet_length(key) = 32").Scan(&known))
	require.Equal(t, 2500+1, known, "those that have not expired, and the second a")
	require.ErrorIs(t, inbox.Put(t.Context(), event("a")), webhook.ErrDuplicate)
	require.Equal(t, 2, counts(t, inbox).Waiting+counts(t, inbox).Running, "waiting events are not forgotten")
}

func lendingTakes(ctx context.Context, inbox *lendingpostgres.Inbox) error {
	for {
		if _, err := inbox.Take(ctx); err != nil {
			return err
		}
	}
}

// counted counts the statements of a pool.
type counted struct{ statements atomic.Int32 }

func (c *counted) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.statements.Add(1)
	return ctx
}

func (c *counted) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (c *counted) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	c.statements.Add(1)
	return ctx
}

func (c *counted) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (c *counted) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// A waiting process sends few statements. It handles its own events and due retries at once, and
// with Listen also the events of other processes.
func TestInboxIdles(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		options lendingpostgres.InboxOptions
		idle    int // statements in the time below, at most
		hears   bool
	}{
		{"polls", lendingpostgres.InboxOptions{Poll: time.Second}, 2 * (idleSeconds + 1), true},
		{"waits", lendingpostgres.InboxOptions{Poll: time.Hour}, 0, false},
		{"listens", lendingpostgres.InboxOptions{Poll: time.Hour, Notify: true}, 0, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			url := migratedURL(t, database(t))
			tracer := new(counted)
			inbox := inboxOf(connect(t, url, func(c *pgxpool.Config) { c.ConnConfig.Tracer = tracer }), &tt.options)
			ctx, cancel := context.WithCancel(t.Context())
			acted := make(chan lending.EventName, 2)
			var calls atomic.Int32
			var running sync.WaitGroup
			if tt.options.Notify {
				running.Go(func() { inbox.Listen(ctx, nil) })
			}
			running.Go(func() {
				webhook.Work(ctx, inbox, func(_ context.Context, e *webhook.Event) error {
					acted <- e.Name
					if calls.Add(1) == 1 {
						return errors.New("again")
					}
					return nil
				}, &webhook.WorkOptions{
					Concurrency: 4,
					Backoff:     func(int) time.Duration { return 150 * time.Millisecond },
				})
			})
			tracer.idle(t, tt.idle)
			require.NoError(t, inbox.Put(t.Context(), event("a")))
			require.Equal(t, lending.EventName("a"), <-acted, "a new event wakes")
			require.Equal(t, lending.EventName("a"), <-acted, "a due retry wakes")
			if tt.hears {
				require.NoError(t, inboxOf(connect(t, url), &tt.options).Put(t.Context(), event("b")))
				require.Equal(t, lending.EventName("b"), <-acted, "the event of another process")
			}
			cancel()
			running.Wait()
		})
	}
}

const idleSeconds = 3

// idle waits until a pool sends at most n statements, after the start.
func (c *counted) idle(t *testing.T, most int) {
	t.Helper()
	before, n := int32(0), int32(-1)
	require.Eventually(t, func() bool {
		now := c.statements.Load()
		before, n = now, now-before
		return before > 0 && int(n) <= most
	}, time.Minute, idleSeconds*time.Second)
	t.Logf("%d statements in %d s", n, idleSeconds)
}

// A listening process learns of events that were put while its connection was broken.
func TestInboxListensAgain(t *testing.T) {
	t.Parallel()
	url := database(t)
	pool := connect(t, url)
	require.NoError(t, lendingpostgres.Migrate(t.Context(), pool, nil))
	inbox := inboxOf(connect(t, url), &lendingpostgres.InboxOptions{Poll: time.Hour})
	config := connect(t, url).Config().ConnConfig
	config.RuntimeParams["application_name"] = "listens"
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		inbox.Listen(ctx, config)
	}()
	defer func() {
		cancel()
		<-ended
	}()
	for n := range 3 {
		var pid int
		require.Eventually(t, func() bool {
			return pool.QueryRow(t.Context(),
				"SELECT pid FROM pg_stat_activity WHERE application_name = 'listens' AND query LIKE 'LISTEN%' "+
					"AND state = 'idle'").Scan(&pid) == nil
		}, time.Minute, 10*time.Millisecond)
		got := make(chan error)
		go func() {
			_, err := inbox.Take(t.Context())
			got <- err
		}()
		_, err := pool.Exec(t.Context(), "SELECT pg_terminate_backend($1)", pid)
		require.NoError(t, err)
		_, err = pool.Exec(t.Context(), "INSERT INTO lending_inbox (name, due, body) VALUES ('test', now(), $1)",
			event(lending.EventName(fmt.Sprint(n))).Body())
		require.NoError(t, err)
		select {
		case err := <-got:
			require.NoError(t, err)
		case <-time.After(time.Minute):
			t.Fatal("nobody looked")
		}
	}
}

// After a broken connection, no event waits for the end of a claim without an owner.
func TestInboxFindsItsClaims(t *testing.T) {
	url := migratedURL(t, database(t))
	proxy := newProxy(t, url)
	inbox := inboxOf(connect(t, proxy.url,
		func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec }), nil)
	for _, test := range []struct {
		name lending.EventName
		lose *atomic.Int32
	}{{"request", &proxy.requests}, {"answer", &proxy.answers}} {
		test.lose.Store(1)
		if err := inbox.Put(t.Context(), event(test.name)); test.name == "answer" {
			require.ErrorIs(t, err, webhook.ErrDuplicate, "it is there")
		} else {
			require.NoError(t, err)
		}
		require.Zero(t, test.lose.Load())
		test.lose.Store(1)
		entry := webhooktest.Take(t, inbox, test.name)
		require.Zero(t, test.lose.Load())
		require.Equal(t, 1, entry.Tries)
		require.Greater(t, time.Until(entry.Until), 4*time.Minute)
		test.lose.Store(1)
		require.NoError(t, inbox.Retry(t.Context(), entry, 0))
		require.Zero(t, test.lose.Load())
		entry = webhooktest.Take(t, inbox, test.name)
		require.Equal(t, 2, entry.Tries)
		test.lose.Store(1)
		require.NoError(t, inbox.Done(t.Context(), entry))
	}
	webhooktest.WantCounts(t, inbox, webhook.InboxCounts{})
}

// A transaction that locks an event after the end of its claim, such as that of a frozen worker,
// delays no other event.
func TestTakePassesALockedRow(t *testing.T) {
	pool := migrated(t)
	inbox := inboxOf(pool, nil)
	require.NoError(t, inbox.Put(t.Context(), event("a")))
	require.NoError(t, inbox.Put(t.Context(), event("b")))
	require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), "SELECT FROM lending_inbox ORDER BY id LIMIT 1 FOR UPDATE")
		require.NoError(t, err)
		webhooktest.Take(t, inbox, "b")
		return nil
	}))
}

// During a backlog, a request continues behind the last and passes an event that is due again. At the
// end of the backlog, and once in Poll, a request begins at the first event.
func TestTakeContinuesABacklog(t *testing.T) {
	for _, tt := range []struct {
		name  string
		poll  time.Duration
		order []lending.EventName
	}{
		{"within Poll", time.Hour, []lending.EventName{"c", "again"}},
		{"after Poll", time.Nanosecond, []lending.EventName{"again", "c"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pool := migrated(t)
			inbox := inboxOf(pool, &lendingpostgres.InboxOptions{Poll: tt.poll})
			for _, name := range []lending.EventName{"again", "a", "b", "c"} {
				require.NoError(t, inbox.Put(t.Context(), event(name)))
			}
			due := func(change string) {
				_, err := pool.Exec(t.Context(), "UPDATE lending_inbox SET due = due "+change+" WHERE id = 1")
				require.NoError(t, err)
			}
			due("+ interval '1 hour'")
			webhooktest.Take(t, inbox, "a") // alone: nothing is running
			webhooktest.Take(t, inbox, "b")
			due("- interval '2 hours'")
			for _, name := range tt.order {
				webhooktest.Take(t, inbox, name)
			}
		})
	}
}

// Events for which this process has no free worker are left to other processes.
func TestTakeClaimsWhatWorkersCanHandle(t *testing.T) {
	pool := migrated(t)
	inbox := inboxOf(pool, nil)
	for _, name := range []lending.EventName{"a", "b", "c"} {
		require.NoError(t, inbox.Put(t.Context(), event(name)))
	}
	webhooktest.Take(t, inbox, "a")
	assert.Equal(t, 1, counts(t, inbox).Running)
}

// If LISTEN does not work, for example through a pooler, the inbox asks as often as without
// Listen. A process with another database gets no notifications either.
func TestListenHearsNothing(t *testing.T) {
	url := database(t)
	pool := connect(t, url)
	require.NoError(t, lendingpostgres.Migrate(t.Context(), pool, nil))
	inbox, other := inboxOf(pool, nil), inboxOf(connect(t, url), &lendingpostgres.InboxOptions{Notify: true})
	deaf := connect(t, database(t)).Config().ConnConfig
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); inbox.Listen(ctx, deaf) }()
	require.Eventually(t, func() (listens bool) {
		err := pool.QueryRow(t.Context(),
			"SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = $1 AND query LIKE 'LISTEN%' AND state = "+
				"'idle')",
			deaf.Database).Scan(&listens)
		return err == nil && listens
	}, time.Minute, time.Millisecond)
	webhooktest.Take(t, inbox, "")
	require.NoError(t, other.Put(t.Context(), event("a")))
	webhooktest.Take(t, inbox, "a")
	cancel()
	<-ended
}

func TestInboxOfAnotherKind(t *testing.T) {
	inbox := inboxOf(migrated(t), nil)
	for _, id := range []string{"", "x", "1/y", "1-2"} {
		entry := &webhook.InboxEntry{ID: id}
		assert.ErrorContains(t, inbox.Done(t.Context(), entry), "another inbox")
		assert.ErrorContains(t, inbox.Retry(t.Context(), entry, 0), "another inbox")
		assert.ErrorContains(t, inbox.DeadLetter(t.Context(), entry, nil), "another inbox")
	}
}
