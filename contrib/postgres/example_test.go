package lendingpostgres_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/webhook"

	lendingpostgres "github.com/lendingapi/lending-go/contrib/postgres"
)

// exampleDatabase returns a pool of an empty database, for examples, which have no testing.T.
func exampleDatabase() (pool *pgxpool.Pool, stop func()) {
	cluster, err := shared()
	if err != nil {
		panic(err)
	}
	url, err := cluster.Database("example")
	if err == nil {
		pool, err = pgxpool.New(context.Background(), url)
	}
	if err != nil {
		panic(err)
	}
	return pool, pool.Close
}

// newClient returns a client of a service. The callback plays a person who reads the code from a
// phone.
func newClient(service *lendingtest.Server, opts ...lending.Option) *lending.Client {
	client, err := lending.New(service.URL, append(opts, lending.WithCredentials(lending.Credentials{
		Username: lendingtest.Username,
		Password: lending.NewSecret(lendingtest.Password),
		TwoFactor: func(context.Context, lending.Challenge) (string, error) {
			return service.TwoFactorCode(lendingtest.Username), nil
		},
	}))...)
	if err != nil {
		panic(err)
	}
	return client
}

// The replicas of a program share a token, so a person enters a single code.
func ExampleNewTokenStore() {
	pool, stop := exampleDatabase() // use pgxpool.New instead
	defer stop()
	service := lendingtest.NewServer()
	defer service.Close()
	ctx := context.Background()
	if err := lendingpostgres.Migrate(ctx, pool, nil); err != nil {
		fmt.Println(err)
		return
	}
	for range 3 { // replicas
		client := newClient(service, lending.WithTokenStore(must(lendingpostgres.NewTokenStore(pool, "lending", nil))))
		fmt.Println("signed in:", client.Session().SignIn(ctx) == nil)
		client.Close()
	}
	fmt.Println("codes sent:", len(service.Sent()))
	// Output:
	// signed in: true
	// signed in: true
	// signed in: true
	// codes sent: 1
}

// The replicas of a program share a token and an idempotency log.
func ExampleMigrate() {
	pool, stop := exampleDatabase() // use pgxpool.New instead
	defer stop()
	ctx, address := context.Background(), "https://lending.example"
	credentials := lending.Credentials{Username: lendingtest.Username, Password: lending.NewSecret(lendingtest.Password)}
	err := lendingpostgres.Migrate(ctx, pool, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	entries, err := lendingpostgres.NewIdempotencyStore(pool, "lending", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	log, err := idempotency.NewLog(entries, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	tokens, err := lendingpostgres.NewTokenStore(pool, "lending", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := lending.New(address, lending.WithCredentials(credentials),
		lending.WithTokenStore(tokens), lending.WithIdempotency(log))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	fmt.Println(client)
	// Output: lending client of https://lending.example
}

// Every replica recognizes a second delivery of an event.
func ExampleNewDeduper() {
	pool, stop := exampleDatabase() // use pgxpool.New instead
	defer stop()
	if err := lendingpostgres.Migrate(context.Background(), pool, nil); err != nil {
		fmt.Println(err)
		return
	}
	const secret, delivery = "whs_0123456789abcdef0123456789abcdef",
		`{"webhookEvent":"WB_Loan_Opened","data":{"loanId":"11111111-2222-3333-4444-555555555555"}}`
	for range 2 { // replicas
		deduper, err := lendingpostgres.NewDeduper(pool, "lending", nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		receiver, err := webhook.NewReceiver(webhook.SignedWith(lending.NewSecret(secret)),
			webhook.Once(deduper, func(_ context.Context, event *webhook.Event) error {
				fmt.Println("acted on", event.Name)
				return nil
			}), nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		r := httptest.NewRequest(http.MethodPost, "/webhooks", strings.NewReader(delivery))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set(webhook.SignatureHeader, lending.Sign(secret, []byte(delivery)))
		w := httptest.NewRecorder()
		receiver.ServeHTTP(w, r)
		fmt.Println("answered:", w.Code)
	}
	// Output:
	// acted on WB_Loan_Opened
	// answered: 204
	// answered: 204
}

// A mutation with a key happens once, even if several replicas call the mutation. The same
// transaction that inserts the order also adds the key to the outbox.
func ExampleNewIdempotencyStore() {
	pool, stop := exampleDatabase() // use pgxpool.New instead
	defer stop()
	service := lendingtest.NewServer()
	defer service.Close()
	ctx := context.Background()
	store := must(lendingpostgres.NewIdempotencyStore(pool, "lending", nil))
	if err := lendingpostgres.Migrate(ctx, pool, nil); err != nil {
		fmt.Println(err)
		return
	}
	if _, err := pool.Exec(ctx, "CREATE TABLE orders (n integer)"); err != nil {
		fmt.Println(err)
		return
	}
	log, err := idempotency.NewLog(store, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO orders VALUES (42)"); err != nil {
			return err
		}
		return store.Outbox().Add(ctx, tx, "order-42/create-customer")
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 { // replicas, at any time
		client := newClient(service, lending.WithIdempotency(log))
		pending, err := store.Outbox().Pending(ctx, 10)
		fmt.Println("to be done:", len(pending), err)
		_, err = client.Applications.CreateCustomer(lending.WithIdempotencyKey(ctx, "order-42/create-customer"), newcomer())
		fmt.Println("created:", err == nil)
		client.Close()
	}
	fmt.Println("executed:", service.Executed("POST /api/Application/create-customer"))
	// Output:
	// to be done: 1 <nil>
	// created: true
	// to be done: 0 <nil>
	// created: true
	// to be done: 0 <nil>
	// created: true
	// executed: 1
}

// A program with database/sql creates a pool of pgx, and opens its sql.DB over that pool. During
// a transaction of a sql.Conn, its pgx connection is in the same transaction.
func ExampleOutbox_Add_databaseSQL() {
	pool, stop := exampleDatabase() // use pgxpool.New instead
	defer stop()
	ctx := context.Background()
	if err := lendingpostgres.Migrate(ctx, pool, nil); err != nil {
		fmt.Println(err)
		return
	}
	store := must(lendingpostgres.NewIdempotencyStore(pool, "lending", nil))
	db := stdlib.OpenDBFromPool(pool) // for the rest of the program
	defer db.Close()

	conn, err := db.Conn(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	// no effect after Commit
	defer tx.Rollback()
	// use INSERT INTO orders instead
	if _, err := tx.ExecContext(ctx, "CREATE TABLE orders AS SELECT $1::int AS n", 42); err != nil {
		fmt.Println(err)
		return
	}
	err = conn.Raw(func(driver any) error {
		return store.Outbox().Add(ctx, driver.(*stdlib.Conn).Conn(), "order-42/create-customer")
	})
	if err == nil {
		err = tx.Commit()
	}
	pending, _ := store.Outbox().Pending(ctx, 10)
	fmt.Println(err, pending[0].Key)
	// Output:
	// <nil> order-42/create-customer
}
