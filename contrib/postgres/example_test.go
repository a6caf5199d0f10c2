package lendingpostgres_test

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/lendingtest"

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
	keys, err := idempotency.NewLog(entries, nil)
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
		lending.WithTokenStore(tokens), lending.WithIdempotency(keys))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	fmt.Println(client)
	// Output: lending client of https://lending.example
}

// A mutation with a key happens once, even if several replicas call the mutation.
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
	keys, err := idempotency.NewLog(store, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 { // replicas, at any time
		client := newClient(service, lending.WithIdempotency(keys))
		keyed := lending.WithIdempotencyKey(ctx, "order-42/create-customer")
		_, err := client.Applications.CreateCustomer(keyed, lending.UserRequest{
			FirstName: "Ada", LastName: "Lovelace", Email: "ada@example.com",
			Password: lending.NewSecret("Analytical-Engine-1"), MobileNumber: "4155550100",
		})
		fmt.Println("created:", err == nil)
		client.Close()
	}
	fmt.Println("executed:", service.Executed("POST /api/Application/create-customer"))
	// Output:
	// created: true
	// created: true
	// created: true
	// executed: 1
}
