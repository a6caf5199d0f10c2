package lendingpostgres_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	lendingpostgres "github.com/lendingapi/lending-go/contrib/postgres"
)

const createRoute = "POST /api/Application/create-customer"

func newcomer() lending.UserRequest {
	return lending.UserRequest{
		FirstName: "Ada", LastName: "Lovelace", Email: "ada@example.com",
		Password: lending.NewSecret("Analytical-Engine-1"), MobileNumber: "4155550100",
	}
}

// replica returns a client with a log in store.
func replica(tb testing.TB, service *lendingtest.Server, entries store.Store,
	opts *idempotency.Options,
) *lending.Client {
	tb.Helper()
	log, err := idempotency.NewLog(entries, opts)
	require.NoError(tb, err)
	client, err := lending.New(service.URL, lending.WithIdempotency(log), lending.WithCredentials(lending.Credentials{
		Username: lendingtest.AdministratorUsername, Password: lending.NewSecret(lendingtest.AdministratorPassword),
	}))
	require.NoError(tb, err)
	tb.Cleanup(client.Close)
	return client
}

func pendingKeys(t *testing.T, entries *lendingpostgres.IdempotencyStore) (keys []string) {
	t.Helper()
	pending, err := entries.Outbox().Pending(t.Context(), 10)
	require.NoError(t, err)
	for _, mutation := range pending {
		assert.Less(t, mutation.Age, time.Minute)
		keys = append(keys, strings.TrimRight(mutation.Key+" "+string(mutation.State), " "))
	}
	return keys
}

// Pending lists a key from the commit of the order until its mutation is done, whatever happens
// in between.
func TestOrderAndItsFirstMutation(t *testing.T) {
	service := lendingtest.NewServer()
	defer service.Close()
	for n, namespace := range []string{"", "sandbox-3"} {
		pool := migrated(t)
		_, err := pool.Exec(t.Context(), "CREATE TABLE orders (n int PRIMARY KEY)")
		require.NoError(t, err)
		entries := must(lendingpostgres.NewIdempotencyStore(pool, "lending",
			&lendingpostgres.IdempotencyStoreOptions{Namespace: namespace}))
		order := func(key string, end error) error {
			return pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), "INSERT INTO orders SELECT coalesce(max(n), 0) + 1 FROM orders")
				return errors.Join(err, entries.Outbox().Add(t.Context(), tx, key),
					entries.Outbox().Add(t.Context(), tx, key), end)
			})
		}
		require.Error(t, order("order-1/customer", errors.New("the caller fails")))
		require.Empty(t, pendingKeys(t, entries))
		require.NoError(t, order("order-2/customer", nil))
		require.NoError(t, order("order-3/customer", nil))
		require.Equal(t, []string{"order-2/customer", "order-3/customer"}, pendingKeys(t, entries))

		client, ctx := replica(t, service, entries, &idempotency.Options{Namespace: namespace}),
			lending.WithIdempotencyKey(t.Context(), "order-2/customer")
		user := newcomer()
		user.Email = namespace + user.Email
		for _, fault := range []struct {
			lendingtest.Fault
			state string
		}{{lendingtest.Fault{Status: 400}, "free"}, {lendingtest.Fault{ResetAfter: true}, "in_doubt"}} {
			service.Fail(createRoute, fault.Fault)
			_, err = client.Applications.CreateCustomer(ctx, user)
			require.Error(t, err)
			require.Equal(t, []string{"order-3/customer", "order-2/customer " + fault.state}, pendingKeys(t, entries),
				"what was tried stands behind")
		}
		_, err = client.Applications.CreateCustomer(ctx, user)
		require.NoError(t, err)
		require.Equal(t, []string{"order-3/customer"}, pendingKeys(t, entries))
		require.NoError(t, order("order-2/customer", nil))
		require.Equal(t, []string{"order-3/customer"}, pendingKeys(t, entries), "it was done before it was noted")
		require.NoError(t,
			pgx.BeginFunc(t.Context(), pool,
				func(tx pgx.Tx) error { return entries.Outbox().Cancel(t.Context(), tx, "order-3/customer") }))
		require.Empty(t, pendingKeys(t, entries))
		var left int
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM lending_outbox").Scan(&left))
		require.Zero(t, left, "what is over is deleted")
		require.Equal(t, n+1, service.Executed(createRoute))
	}
}

// Mutations in needs_review do not hide new mutations, however many there are.
func TestPendingReviewsHideNoOthers(t *testing.T) {
	service := lendingtest.NewServer()
	defer service.Close()
	pool := migrated(t)
	entries := must(lendingpostgres.NewIdempotencyStore(pool, "lending", nil))
	client := replica(t, service, entries, nil)
	add := func(key string) {
		require.NoError(t,
			pgx.BeginFunc(t.Context(), pool,
				func(tx pgx.Tx) error { return entries.Outbox().Add(t.Context(), tx, key) }))
	}
	customer := service.AddCustomer(lendingtest.Customer{Email: "ada@example.com"})
	id, err := lending.ParseApplicationID(service.AddApplication(lendingtest.Application{CustomerID: customer.ID}).ID)
	require.NoError(t, err)
	for _, key := range []string{"stuck-1", "stuck-2"} {
		add(key)
		service.Fail("POST /api/Application/send-application-link", lendingtest.Fault{ResetAfter: true})
		for range 2 {
			require.Error(t, client.Applications.SendLink(lending.WithIdempotencyKey(t.Context(), key), id))
		}
	}
	add("new")
	require.Equal(t, []string{"new", "stuck-1 needs_review", "stuck-2 needs_review"}, pendingKeys(t, entries))
	pending, err := entries.Outbox().Pending(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, "new", pending[0].Key)
}

// A program with database/sql adds a key in a transaction of its own.
func TestOutboxInATransactionOfDatabaseSQL(t *testing.T) {
	pool := migrated(t)
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	entries := must(lendingpostgres.NewIdempotencyStore(pool, "lending", nil))
	for _, commit := range []bool{false, true} {
		require.Empty(t, pendingKeys(t, entries))
		conn, err := db.Conn(t.Context())
		require.NoError(t, err)
		tx, err := conn.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		require.NoError(t, conn.Raw(func(driver any) error {
			return entries.Outbox().Add(t.Context(), driver.(*stdlib.Conn).Conn(), "order-1")
		}))
		end := map[bool]func() error{false: tx.Rollback, true: tx.Commit}
		require.NoError(t, end[commit]())
		require.NoError(t, conn.Close())
	}
	require.Equal(t, []string{"order-1"}, pendingKeys(t, entries))
	require.ErrorIs(t,
		db.QueryRowContext(t.Context(), "SELECT 1 FROM lending_outbox WHERE key <> ':order-1'").Scan(new(int)),
		sql.ErrNoRows)
}

func TestOutboxRefusesKeysThatAreNone(t *testing.T) {
	pool := migrated(t)
	entries := must(lendingpostgres.NewIdempotencyStore(pool, "lending", nil))
	_, err := entries.Outbox().Pending(t.Context(), 0)
	require.ErrorAs(t, err, new(*lending.ArgumentError))
	service := lendingtest.NewServer()
	defer service.Close()
	client := replica(t, service, entries, nil)
	for _, key := range []string{"", "a\x00", "a\n", "\x7f", "\xff", "\ufffd", strings.Repeat("k", 257)} {
		require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			require.ErrorAs(t, entries.Outbox().Add(t.Context(), tx, key), new(*lending.ArgumentError))
			return nil
		}))
		_, err = client.Applications.CreateCustomer(lending.WithIdempotencyKey(t.Context(), key), newcomer())
		require.ErrorAs(t, err, new(*lending.ArgumentError), "the rule is that of WithIdempotencyKey")
	}
	require.Empty(t, pendingKeys(t, entries))
	_, err = client.Applications.CreateCustomer(lending.WithIdempotencyKey(context.WithoutCancel(t.Context()),
		strings.Repeat("k", 256)), newcomer())
	require.NoError(t, err)
}

// A key leaves the outbox with its entry in the log. Otherwise its mutation would look as if no
// process had begun with it.
func TestForgottenMutationIsNotPending(t *testing.T) {
	service := lendingtest.NewServer()
	defer service.Close()
	pool := migrated(t)
	entries := must(lendingpostgres.NewIdempotencyStore(pool, "lending", nil))
	for _, key := range []string{"order-1/customer", "order-2/customer"} {
		require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			return entries.Outbox().Add(t.Context(), tx, key)
		}))
	}
	client := replica(t, service, entries, nil)
	_, err := client.Applications.CreateCustomer(lending.WithIdempotencyKey(t.Context(), "order-1/customer"), newcomer())
	require.NoError(t, err)
	n, err := must(idempotency.NewLog(entries, nil)).Forget(t.Context(), "order-1/")
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, []string{"order-2/customer"}, pendingKeys(t, entries))
}
