package lendingpostgres_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/webhooktest"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/webhook"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	lendingpostgres "github.com/lendingapi/lending-go/contrib/postgres"
)

func sent(key, lock string) store.Entry {
	return store.Entry{Key: key, State: store.Sent, Lock: lock, Data: []byte("data of " + key)}
}

func stored(fence int64, text string) lending.StoredToken {
	return lending.StoredToken{Fence: fence, Data: lending.NewSecret(text)}
}

// stores holds a store of each kind, with the same pool.
type stores struct {
	token       *lendingpostgres.TokenStore
	idempotency *lendingpostgres.IdempotencyStore
}

func storesOf(pool *pgxpool.Pool) stores {
	return stores{
		fake.Must(lendingpostgres.NewTokenStore(pool, "test", nil)),
		fake.Must(lendingpostgres.NewIdempotencyStore(pool, "test", nil)),
	}
}

// each makes every change once, and checks that the change happened once.
func (s stores) each(t *testing.T, n int, before func()) {
	t.Helper()
	ctx := t.Context()
	do := func(what string, do func() error) {
		t.Helper()
		before()
		require.NoError(t, do(), what)
	}
	entry := sent(fmt.Sprint("key ", n), fmt.Sprint("lock ", n))
	for ; entry.Revision < 3; entry.Revision++ {
		do("Save of an entry", func() error { return s.idempotency.Save(ctx, entry) })
		require.ErrorIs(t, s.idempotency.Save(ctx, entry), store.ErrConflict, "the same, of another")
	}
	do("Load of an entry", func() error {
		kept, err := s.idempotency.Load(ctx, entry.Key)
		require.Equal(t, int64(3), kept.Revision)
		return err
	})
	var fence, again int64
	owner := fmt.Sprint("owner ", n)
	do("Acquire", func() (err error) { fence, err = s.token.Acquire(ctx, owner, time.Minute); return err })
	do("Acquire again", func() (err error) { again, err = s.token.Acquire(ctx, owner, time.Minute); return err })
	require.Equal(t, fence, again)
	do("Save of a token", func() error { return s.token.Save(ctx, stored(fence, owner)) })
	token, err := s.token.Load(ctx)
	require.NoError(t, err)
	require.Equal(t, owner, token.Data.Reveal())
	do("Release", func() error { return s.token.Release(ctx, owner) })
}

// A connection breaks before a statement arrives, or after its commit. The change happens once,
// and the caller gets no error.
func TestConnectionsBreak(t *testing.T) {
	url := migratedURL(t, database(t))
	for _, test := range []struct {
		name   string
		change func(*pgxpool.Config)
	}{
		{"prepared statements", func(*pgxpool.Config) {}},
		{"exec", func(c *pgxpool.Config) {
			c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			proxy := newProxy(t, url)
			s := storesOf(connect(t, proxy.url, test.change))
			n := len(test.name) // of this test
			s.each(t, n, func() {})
			s.each(t, n+100, func() {
				require.Zero(t, proxy.requests.Load()+proxy.answers.Load(), "nothing was broken off")
				proxy.requests.Store(1)
			})
			s.each(t, n+200, func() {
				require.Zero(t, proxy.requests.Load()+proxy.answers.Load(), "nothing was broken off")
				proxy.answers.Store(1)
			})
			require.Zero(t, proxy.answers.Load(), "nothing was broken off")
		})
	}
}

// If every connection breaks, the error says so, and the store does not guess.
func TestConnectionsBreakAllTheTime(t *testing.T) {
	url := database(t)
	pool := connect(t, url)
	require.NoError(t, lendingpostgres.Migrate(t.Context(), pool, nil))
	direct, proxy := storesOf(pool), newProxy(t, url)
	broken := storesOf(connect(t, proxy.url,
		func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec }))
	for _, arrives := range []bool{false, true} {
		proxy.requests.Store(map[bool]int32{false: math.MaxInt32, true: 0}[arrives])
		proxy.answers.Store(math.MaxInt32)
		key := fmt.Sprint("key ", arrives)
		err := broken.idempotency.Save(t.Context(), sent(key, ""))
		require.Error(t, err)
		require.NotErrorIs(t, err, store.ErrConflict)
		kept, err := direct.idempotency.Load(t.Context(), key)
		require.NoError(t, err)
		require.Equal(t, arrives, kept != nil)
		_, err = broken.token.Acquire(t.Context(), key, time.Minute)
		require.Error(t, err)
		require.NotErrorIs(t, err, lending.ErrLeaseHeld)
		_, err = broken.idempotency.Load(t.Context(), key)
		require.Error(t, err, "nil would say that the command was never sent")
	}
}

// The stores try a statement again only after temporary errors of the server.
func TestTemporaryErrorsAreTriedAgain(t *testing.T) {
	pool := migrated(t)
	_, err := pool.Exec(t.Context(), `CREATE SEQUENCE tries;
		CREATE TABLE refusal (state text, times int);
		INSERT INTO refusal VALUES ('', 0);
		CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
		DECLARE r refusal;
		BEGIN
			SELECT * INTO r FROM refusal;
			IF nextval('tries') <= r.times THEN RAISE EXCEPTION 'refused' USING ERRCODE = r.state; END IF;
			RETURN new;
		END $$;
		CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON lending_idempotency FOR EACH ROW EXECUTE FUNCTION refuse()`)
	require.NoError(t, err)
	entries := storesOf(pool).idempotency
	again := []string{"40001", "40P01", "53300", "57P01", "57P03", "08006", "25006"}
	for _, state := range append(again, "57014", "23514", "42501", "22001", "XX000") {
		_, err := pool.Exec(t.Context(),
			"ALTER SEQUENCE tries RESTART; UPDATE refusal SET times = 2, state = '"+state+"'")
		require.NoError(t, err)
		err = entries.Save(t.Context(), sent("key "+state, ""))
		if slices.Contains(again, state) {
			require.NoError(t, err, state)
			require.ErrorIs(t, entries.Save(t.Context(), sent("key "+state, "")), store.ErrConflict)
			continue
		}
		var failed *pgconn.PgError
		require.ErrorAs(t, err, &failed)
		require.Equal(t, state, failed.Code)
		var tries int
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT last_value FROM tries").Scan(&tries))
		require.Equal(t, 1, tries, state)
	}
	_, err = pool.Exec(t.Context(), "ALTER SEQUENCE tries RESTART; UPDATE refusal SET times = 1000, state = '40001'")
	require.NoError(t, err)
	require.ErrorContains(t, entries.Save(t.Context(), sent("key", "")), "40001", "not for ever")
	kept, err := entries.Load(t.Context(), "key")
	require.NoError(t, err)
	require.Nil(t, kept)
}

// A store that a person has to set up says so, with the SQLSTATE and the next step, and NextOf does
// not retry for ever in silence.
func TestStoreWithoutTablesOrRightsNeedsAPerson(t *testing.T) {
	url := database(t)
	owner := connect(t, url)
	role := owner.Config().ConnConfig.Database
	_, err := owner.Exec(t.Context(), "CREATE ROLE "+role+" LOGIN; GRANT USAGE ON SCHEMA public TO "+role)
	require.NoError(t, err)
	refused := func(want string) {
		t.Helper()
		pool := connect(t, url, func(c *pgxpool.Config) { c.ConnConfig.User = role })
		log, err := idempotency.NewLog(storesOf(pool).idempotency, nil)
		require.NoError(t, err)
		client, err := lending.New("https://lending.example", lending.WithIdempotency(log))
		require.NoError(t, err)
		defer client.Close()
		ctx := lending.WithIdempotencyKey(t.Context(), "key")
		_, called := client.Applications.CreateCustomer(ctx, lending.UserRequest{
			FirstName: "Ada", LastName: "Lovelace", Email: "ada@example.com",
			Password: lending.NewSecret("Analytical-Engine-1"), MobileNumber: "4155550100",
		})
		for _, err := range []error{called, log.Ready(ctx)} {
			require.ErrorContains(t, err, want)
			require.Equal(t, lending.Next{Retry: true, After: 15 * time.Minute, Person: true}, lending.NextOf(err))
		}
		_, err = storesOf(pool).token.Load(ctx)
		require.True(t, lending.NextOf(err).Person)
	}
	refused("PostgreSQL answered 42P01: a table is missing; call Migrate")
	require.NoError(t, lendingpostgres.Migrate(t.Context(), owner, nil))
	refused("PostgreSQL answered 42501: the role lacks a right")
}

// After a failover a connection can lead to a standby. The stores open another connection, which
// finds the server that accepts writes. Without such a server, the error says so.
func TestReadOnlyServer(t *testing.T) {
	url := migratedURL(t, database(t))
	pool := connect(t, url, func(c *pgxpool.Config) { c.MaxConns = 1 })
	s, inbox := storesOf(pool), inboxOf(pool, nil)
	readOnly := func() {
		_, err := pool.Exec(t.Context(), "SET default_transaction_read_only = on")
		require.NoError(t, err)
	}
	s.each(t, 1, readOnly)
	readOnly()
	require.NoError(t, inbox.Put(t.Context(), event("a")))
	readOnly()
	entry := webhooktest.Take(t, inbox, "a")
	readOnly()
	require.NoError(t, inbox.DeadLetter(t.Context(), entry, nil))
	_, err := pool.Exec(t.Context(), "SET default_transaction_read_only = off; ALTER DATABASE \""+
		pool.Config().ConnConfig.Database+"\" SET default_transaction_read_only = on")
	require.NoError(t, err)
	pool.Reset()
	var failed *pgconn.PgError
	require.ErrorAs(t, s.idempotency.Save(t.Context(), sent("key", "")), &failed)
	require.Equal(t, "25006", failed.Code)
	_, err = s.token.Acquire(t.Context(), "owner", time.Minute)
	require.ErrorAs(t, err, &failed)
	require.ErrorAs(t, inbox.Put(t.Context(), event("b")), &failed)
	require.Equal(t, "25006", failed.Code)
	_, err = inbox.Take(t.Context())
	require.ErrorAs(t, err, &failed)
	webhooktest.WantCounts(t, inbox, webhook.InboxCounts{DeadLetters: 1})
	requireReadOnly(t, s.idempotency)
	kept, err := s.idempotency.Load(t.Context(), "key 1")
	require.NoError(t, err, "it can be read")
	require.Equal(t, int64(3), kept.Revision)
}

// requireReadOnly requires a log in the store not to be ready, and to name the cure.
func requireReadOnly(t *testing.T, entries store.Store) {
	t.Helper()
	err := fake.Must(idempotency.NewLog(entries, nil)).Ready(t.Context())
	require.ErrorIs(t, err, idempotency.ErrStore)
	require.ErrorContains(t, err, "PostgreSQL answered 25006: the server accepts no writes; connect to the primary, with "+
		"target_session_attrs=read-write in the connection string")
}

// A server hangs. The calls return at the end of their context, before the tables are unlocked.
func TestCallsReturnWhileTheTablesAreLocked(t *testing.T) {
	pool := migrated(t)
	s, inbox := storesOf(pool), inboxOf(pool, &lendingpostgres.InboxOptions{Lease: 2 * time.Second})
	require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), "LOCK TABLE lending_token, lending_idempotency, lending_inbox, lending_inbox_seen")
		require.NoError(t, err)
		for _, test := range []struct {
			name string
			call func(ctx context.Context) error
		}{
			{"Save", func(ctx context.Context) error { return s.idempotency.Save(ctx, sent("key", "")) }},
			{"Load", func(ctx context.Context) error { _, err := s.idempotency.Load(ctx, "key"); return err }},
			{"Acquire", func(ctx context.Context) error { _, err := s.token.Acquire(ctx, "owner", time.Minute); return err }},
			{"Take", func(ctx context.Context) error { _, err := inbox.Take(ctx); return err }},
			{"Put", func(ctx context.Context) error { return inbox.Put(ctx, event("a")) }},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			require.ErrorIs(t, test.call(ctx), context.DeadlineExceeded, test.name)
			cancel()
		}
		return nil
	}))
	require.NoError(t, inbox.Put(t.Context(), event("b")))
	webhooktest.Take(t, inbox, "b")
	kept, err := s.idempotency.Load(t.Context(), "key")
	require.NoError(t, err)
	require.Nil(t, kept)
}

// A readiness probe without a deadline does not wait for a server that accepts a connection and says nothing.
func TestReadyOfAHangingServerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := connect(t, "postgres://silent", func(c *pgxpool.Config) {
			c.ConnConfig.LookupFunc = func(context.Context, string) ([]string, error) { return []string{"silent"}, nil }
			c.ConnConfig.DialFunc = func(context.Context, string, string) (net.Conn, error) {
				client, server := net.Pipe()
				go func() { _, _ = io.Copy(io.Discard, server) }()
				return client, nil
			}
		})
		began := time.Now()
		require.ErrorContains(t, inboxOf(pool, nil).Ready(t.Context()), "the inbox is not ready")
		assert.LessOrEqual(t, time.Since(began), 10*time.Second)
		pool.Close()
	})
}

// Replicas share a sign-in, use its token on while the server is down, and share the next sign-in when the
// server is back.
func TestReplicasUseTheirTokenInAnOutage(t *testing.T) {
	t.Parallel()
	cluster := runServer(t)
	url := migratedURL(t, databaseIn(t, cluster))
	service := lendingtest.New()
	defer service.Close()
	var replicas [4]*lending.Client
	for n := range replicas {
		replicas[n] = fake.SignIn(t, service, nil, lending.WithTokenStore(storesOf(connect(t, url)).token))
	}
	use := func() {
		var calling sync.WaitGroup
		for _, replica := range replicas {
			calling.Go(func() {
				_, err := replica.Applications.ListByCustomer(t.Context(), lending.CustomerID{1})
				assert.ErrorIs(t, err, lending.ErrNotFound)
			})
		}
		calling.Wait()
	}
	use()
	cluster.kill()
	use()
	require.NoError(t, cluster.start())
	for _, replica := range replicas {
		replica.Session().Invalidate(fake.Must(replica.Session().Token(t.Context())))
	}
	require.Equal(t, 1, service.Arrived(fake.LoginRoute))
	use()
	require.Equal(t, 2, service.Arrived(fake.LoginRoute))
	require.Len(t, service.Sent(), 2, "codes")
}

// The server and connections are killed again and again. Every acknowledged Save is there.
func TestIdempotencyUnderKill(t *testing.T) {
	t.Parallel()
	cluster := runServer(t)
	url := migratedURL(t, databaseIn(t, cluster))
	counters := count(t, 8, url)
	const kills, cuts = 4, 2
	for n := range kills {
		for range cuts {
			counters.more(t, 50)
			require.NoError(t, cluster.do("SELECT pg_terminate_backend(pid) FROM pg_stat_activity "+
				"WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"))
		}
		if n%2 == 0 {
			cluster.kill()
		} else {
			cluster.stop()
		}
		require.NoError(t, cluster.start())
	}
	counters.end(t, url)
	t.Logf("the server ended %d times, its connections %d times", kills, kills*cuts)
}

// After a failover to a synchronous standby, every acknowledged Save is there, and clients with
// both addresses continue.
func TestFailover(t *testing.T) {
	t.Parallel()
	primary := runServer(t)
	standby, err := primary.standby()
	require.NoError(t, err)
	defer standby.remove()
	require.NoError(t, primary.do("ALTER SYSTEM SET synchronous_standby_names = '*'"))
	require.NoError(t, primary.do("SELECT pg_reload_conf()"))
	both := "host=" + standby.directory + "," + primary.directory +
		" user=postgres dbname=postgres target_session_attrs=read-write"
	require.NoError(t, lendingpostgres.Migrate(t.Context(), connect(t, both), nil))
	counters := count(t, 4, both)
	counters.more(t, 200)
	requireReadOnly(t, storesOf(connect(t, standby.url("postgres"))).idempotency)
	require.NoError(t, fake.Must(idempotency.NewLog(storesOf(connect(t, both)).idempotency, nil)).Ready(t.Context()))
	primary.kill()
	before := counters.saves()
	require.NoError(t, standby.promote())
	counters.more(t, 200)
	counters.end(t, both)
	t.Logf("%d Saves before the failover, %d after", before, counters.saves()-before)
}
