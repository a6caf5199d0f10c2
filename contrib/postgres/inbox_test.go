package lendingpostgres_test

import (
	"context"
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

func event(name lending.EventName) *webhook.Event { return &webhook.Event{Name: name} }

// inboxOf returns an inbox with valid options.
func inboxOf(pool *pgxpool.Pool, options *lendingpostgres.InboxOptions) *lendingpostgres.Inbox {
	return fake.Must(lendingpostgres.NewInbox(pool, "test", options))
}

// An event from a transaction is in the inbox if and when the transaction commits.
func TestPutTx(t *testing.T) {
	pool := migrated(t)
	inbox := inboxOf(pool, &lendingpostgres.InboxOptions{Poll: 50 * time.Millisecond})
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
	for taken := map[lending.EventName]bool{}; len(taken) < 20; { // on a busy machine claims end meanwhile
		entry, err := inbox.Take(ctx)
		require.NoError(t, err)
		taken[entry.Event.Name] = true
	}
	for range 20 {
		entry, err := inbox.Take(ctx)
		require.NoError(t, err)
		require.NoError(t, inbox.Done(ctx, entry))
		require.GreaterOrEqual(t, entry.Tries, 2)
	}
}

// A key is known for Keep. Then the inbox deletes the key, even during a backlog without end, and
// neither an event nor a key of others.
func TestInboxForgets(t *testing.T) {
	pool := migrated(t)
	options := &lendingpostgres.InboxOptions{Keep: time.Hour, Poll: 10 * time.Millisecond}
	inbox := inboxOf(pool, options)
	require.NoError(t, inbox.Put(t.Context(), event("a")))
	require.NoError(t, inbox.Done(t.Context(), webhooktest.Take(t, inbox, "a")))
	require.ErrorIs(t, inbox.Put(t.Context(), event("a")), webhook.ErrDuplicate)
	_, err := pool.Exec(t.Context(), "UPDATE lending_inbox_seen SET at = at - interval '61 min'")
	require.NoError(t, err)
	require.NoError(t, inbox.Put(t.Context(), event("a")), "it is forgotten, though not deleted")
	require.ErrorIs(t, inbox.Put(t.Context(), event("a")), webhook.ErrDuplicate)
	require.NoError(t, inbox.Put(t.Context(), event("b")))
	require.NoError(t, inbox.Put(t.Context(), event("c")))
	_, err = pool.Exec(t.Context(), `INSERT INTO lending_inbox_seen
		SELECT name, sha256(convert_to(n::text || age, 'UTF8')), now() - age
		FROM (VALUES ('test', interval '61 min', 12000), ('other', interval '61 min', 10),
			('test', interval '59 min', 10)) AS old (name, age, number), generate_series(1, number) n`)
	require.NoError(t, err, "more than a statement deletes")
	inbox = inboxOf(pool, options)
	webhooktest.Take(t, inbox, "a")
	webhooktest.Take(t, inbox, "b")
	left := map[string]int{}
	rows, err := pool.Query(t.Context(), "SELECT name, count(*) FROM lending_inbox_seen GROUP BY name")
	require.NoError(t, err)
	var name string
	var n int
	_, err = pgx.ForEachRow(rows, []any{&name, &n}, func() error { left[name] = n; return nil })
	require.NoError(t, err)
	require.Equal(t, map[string]int{"test": 10 + 3, "other": 10}, left)
	webhooktest.WantCounts(t, inbox, webhook.InboxCounts{Waiting: 1, Running: 2})
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

func TestInboxOfAnotherKind(t *testing.T) {
	inbox := inboxOf(migrated(t), nil)
	for _, id := range []string{"", "x", "1/y", "1-2"} {
		entry := &webhook.InboxEntry{ID: id}
		assert.ErrorContains(t, inbox.Done(t.Context(), entry), "another inbox")
		assert.ErrorContains(t, inbox.Retry(t.Context(), entry, 0), "another inbox")
		assert.ErrorContains(t, inbox.DeadLetter(t.Context(), entry, nil), "another inbox")
	}
}

func TestInboxWithoutItsTablesIsNotReady(t *testing.T) {
	t.Parallel()
	pool := connect(t, database(t))
	inbox := inboxOf(pool, nil)
	require.ErrorContains(t, inbox.Ready(t.Context()), "lendingpostgres: the inbox is not ready: ")
	_, err := inbox.Ages(t.Context())
	require.Error(t, err)
	require.NoError(t, lendingpostgres.Migrate(t.Context(), pool, nil))
	require.NoError(t, inbox.Ready(t.Context()))
	_, err = pool.Exec(t.Context(),
		"ALTER DATABASE \""+pool.Config().ConnConfig.Database+"\" SET default_transaction_read_only = on")
	require.NoError(t, err)
	pool.Reset()
	require.EqualError(t, inbox.Ready(t.Context()),
		"lendingpostgres: the inbox is not ready: the database is read only; check the database, and call Migrate")
}
