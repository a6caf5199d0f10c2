package lendingpostgres_test

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/examples/order"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/orders"

	lendingpostgres "github.com/lendingapi/lending-go/contrib/postgres"
)

// exampleDatabase returns a pool of an empty database, for examples, which have no testing.T.
func exampleDatabase() (pool *pgxpool.Pool, stop func()) {
	cluster, err := shared()
	if err != nil {
		panic(err)
	}
	url, err := cluster.database("example")
	if err == nil {
		pool, err = pgxpool.New(context.Background(), url)
	}
	if err != nil {
		panic(err)
	}
	return pool, pool.Close
}

// The replicas of a program share a token, so a person enters a single code, and an idempotency log, so that a mutation
// with a key happens once.
func ExampleMigrate() {
	pool, stop := exampleDatabase() // use pgxpool.New instead
	defer stop()
	service := lendingtest.NewServer()
	defer service.Close()
	ctx, address, credentials := context.Background(), service.URL, lending.Credentials{
		Username: lendingtest.Username, Password: lending.NewSecret(lendingtest.Password),
		TwoFactor: func(context.Context, lending.Challenge) (string, error) {
			return service.TwoFactorCode(lendingtest.Username), nil // a person reads the code from a phone
		},
	}
	replica := func() error {
		err := lendingpostgres.Migrate(ctx, pool, nil)
		if err != nil {
			return err
		}
		entries, err := lendingpostgres.NewIdempotencyStore(pool, "lending", nil)
		if err != nil {
			return err
		}
		keys, err := idempotency.NewLog(entries, nil)
		if err != nil {
			return err
		}
		tokens, err := lendingpostgres.NewTokenStore(pool, "lending", nil)
		if err != nil {
			return err
		}
		client, err := lending.New(address, lending.WithCredentials(credentials),
			lending.WithTokenStore(tokens), lending.WithIdempotency(keys))
		if err != nil {
			return err
		}
		defer client.Close()
		_, err = client.Applications.CreateCustomer(lending.WithIdempotencyKey(ctx, "order-42/create-customer"),
			lending.UserRequest{
				FirstName: "Ada", LastName: "Lovelace", Email: "ada@example.com",
				Password: lending.NewSecret("Analytical-Engine-1"), MobileNumber: "4155550100",
			})
		return err
	}
	for range 3 {
		fmt.Println("failed:", replica())
	}
	fmt.Println("codes sent:", len(service.Sent()))
	fmt.Println("executed:", service.Executed("POST /api/Application/create-customer"))
	// Output:
	// failed: <nil>
	// failed: <nil>
	// failed: <nil>
	// codes sent: 1
	// executed: 1
}

// With a lock, one step of an order runs at a time in all replicas.
func ExampleNewOrderLock() {
	pool, stop := exampleDatabase() // use pgxpool.New instead
	defer stop()
	lock, err := lendingpostgres.NewOrderLock(pool, "lending")
	if err != nil {
		panic(err)
	}

	all, _ := order.Orders(1)
	table := order.NewTable(all...)
	ctx, end := context.WithCancel(context.Background())
	step := func(context.Context, string) error {
		fmt.Println("the step has the lock")
		end()
		return nil
	}
	worker, err := orders.New(table.Open, step, &orders.Options{Lock: lock.Lock})
	if err != nil {
		panic(err)
	}
	_ = worker.Run(ctx)
	// Output: the step has the lock
}
