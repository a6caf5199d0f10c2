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

// replica returns a client of a service, with a journal in store.
func replica(tb testing.TB, service *lendingtest.Server, store lending.JournalStore, opts *lending.JournalOptions) *lending.Client {
	tb.Helper()
	client, err := lending.New(service.URL, lending.WithJournal(lending.NewJournal(store, opts)), lending.WithCredentials(lending.Credentials{
		Username: lendingtest.AdministratorUsername, Password: lending.NewSecret(lendingtest.AdministratorPassword),
	}))
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = client.Close() })
	return client
}

func intended(t *testing.T, store *lendingpostgres.JournalStore) (keys []string) {
	t.Helper()
	intents, err := store.Intended(t.Context(), 10)
	require.NoError(t, err)
	for _, intent := range intents {
		assert.Less(t, intent.Age, time.Minute)
		keys = append(keys, strings.TrimRight(intent.Key+" "+string(intent.State), " "))
	}
	return keys
}

// What is noted with the order is found until its command is done, whatever becomes of that
// on the way.
func TestOrderAndItsFirstCommand(t *testing.T) {
	service := lendingtest.NewServer()
	defer service.Close()
	for n, namespace := range []string{"", "sandbox-3"} {
		pool := migrated(t)
		_, err := pool.Exec(t.Context(), "CREATE TABLE orders (n int PRIMARY KEY)")
		require.NoError(t, err)
		store := lendingpostgres.NewJournalStore(pool, "lending", lendingpostgres.WithNamespace(namespace))
		order := func(key string, end error) error {
			return pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), "INSERT INTO orders SELECT coalesce(max(n), 0) + 1 FROM orders")
				return errors.Join(err, store.In(tx).Intend(t.Context(), key), store.In(tx).Intend(t.Context(), key), end)
			})
		}
		require.Error(t, order("order-1/customer", errors.New("the caller fails")))
		require.Empty(t, intended(t, store))
		require.NoError(t, order("order-2/customer", nil))
		require.NoError(t, order("order-3/customer", nil))
		require.Equal(t, []string{"order-2/customer", "order-3/customer"}, intended(t, store))

		client, ctx := replica(t, service, store, &lending.JournalOptions{Namespace: namespace}), lending.WithKey(t.Context(), "order-2/customer")
		user := newcomer()
		user.Email = namespace + user.Email
		for _, fault := range []struct {
			lendingtest.Fault
			state string
		}{{lendingtest.Fault{Status: 400}, "free"}, {lendingtest.Fault{ResetAfter: true}, "unknown"}} {
			service.Fail(createRoute, fault.Fault)
			_, err = client.Applications.CreateCustomer(ctx, user)
			require.Error(t, err)
			require.Equal(t, []string{"order-3/customer", "order-2/customer " + fault.state}, intended(t, store), "what was tried stands behind")
		}
		_, err = client.Applications.CreateCustomer(ctx, user)
		require.NoError(t, err)
		require.Equal(t, []string{"order-3/customer"}, intended(t, store))
		require.NoError(t, order("order-2/customer", nil))
		require.Equal(t, []string{"order-3/customer"}, intended(t, store), "it was done before it was noted")
		require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { return store.In(tx).GiveUp(t.Context(), "order-3/customer") }))
		require.Empty(t, intended(t, store))
		var left int
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM lending_intent").Scan(&left))
		require.Zero(t, left, "what is over is deleted")
		require.Equal(t, n+1, service.Executed(createRoute))
	}
}

// What nobody can decide but a person does not hide what is new, however much of it there is.
func TestUndecidedIntentsHideNoOthers(t *testing.T) {
	service := lendingtest.NewServer()
	defer service.Close()
	pool := migrated(t)
	store := lendingpostgres.NewJournalStore(pool, "lending")
	client := replica(t, service, store, nil)
	intend := func(key string) {
		require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { return store.In(tx).Intend(t.Context(), key) }))
	}
	customer := service.AddCustomer(lendingtest.Customer{Email: "ada@example.com"})
	id, err := lending.ParseApplicationID(service.AddApplication(lendingtest.Application{CustomerID: customer.ID}).ID)
	require.NoError(t, err)
	for _, key := range []string{"stuck-1", "stuck-2"} {
		intend(key)
		service.Fail("POST /api/Application/send-application-link", lendingtest.Fault{ResetAfter: true})
		for range 2 {
			require.Error(t, client.Applications.SendLink(lending.WithKey(t.Context(), key), id))
		}
	}
	intend("new")
	require.Equal(t, []string{"new", "stuck-1 undecided", "stuck-2 undecided"}, intended(t, store))
	intents, err := store.Intended(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, "new", intents[0].Key)
}

// Who has database/sql notes it in a transaction of that.
func TestIntentInATransactionOfDatabaseSQL(t *testing.T) {
	pool := migrated(t)
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	store := lendingpostgres.NewJournalStore(pool, "lending")
	for _, commit := range []bool{false, true} {
		require.Empty(t, intended(t, store))
		conn, err := db.Conn(t.Context())
		require.NoError(t, err)
		tx, err := conn.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		require.NoError(t, conn.Raw(func(driver any) error {
			return store.In(driver.(*stdlib.Conn).Conn()).Intend(t.Context(), "order-1")
		}))
		end := map[bool]func() error{false: tx.Rollback, true: tx.Commit}
		require.NoError(t, end[commit]())
		require.NoError(t, conn.Close())
	}
	require.Equal(t, []string{"order-1"}, intended(t, store))
	require.ErrorIs(t, db.QueryRowContext(t.Context(), "SELECT 1 FROM lending_intent WHERE key <> ':order-1'").Scan(new(int)), sql.ErrNoRows)
}

func TestIntentsThatCannotBe(t *testing.T) {
	pool := migrated(t)
	store := lendingpostgres.NewJournalStore(pool, "lending")
	require.ErrorAs(t, lendingpostgres.NewJournalStore(pool, "", lendingpostgres.WithSchema("")).In(nil).GiveUp(t.Context(), "k"), new(*lending.ArgumentError))
	_, err := store.Intended(t.Context(), 0)
	require.ErrorAs(t, err, new(*lending.ArgumentError))
	service := lendingtest.NewServer()
	defer service.Close()
	client := replica(t, service, store, nil)
	for _, key := range []string{"", "a\x00", "a\n", "\x7f", "\xff", "\ufffd", strings.Repeat("k", 257)} {
		require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			require.ErrorAs(t, store.In(tx).Intend(t.Context(), key), new(*lending.ArgumentError))
			return nil
		}))
		_, err = client.Applications.CreateCustomer(lending.WithKey(t.Context(), key), newcomer())
		require.ErrorAs(t, err, new(*lending.ArgumentError), "the rule is that of WithKey")
	}
	require.Empty(t, intended(t, store))
	_, err = client.Applications.CreateCustomer(lending.WithKey(context.WithoutCancel(t.Context()), strings.Repeat("k", 256)), newcomer())
	require.NoError(t, err)
}
