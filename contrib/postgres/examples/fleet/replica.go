package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/lendingtest"

	lendingpostgres "github.com/lendingapi/lending-go/contrib/postgres"
)

const (
	tokenName = "lending administrator" // each account and each service has its own
	logName   = "lending"

	patience = time.Second // deadline of an order's mutations; after a kill, others leave the last mutation alone for as long
	// The embedded service executes no mutation later than this after its caller has gone. The
	// limit of the real service is not published: MaxLateness is 5 minutes by default.
	maxLateness = 300 * time.Millisecond
)

// work carries out orders until none is left. All replicas do the same.
func work(ctx context.Context, address, database string) error {
	pool, err := pgxpool.New(ctx, database)
	if err != nil {
		return err
	}
	defer pool.Close()
	tokens, err := lendingpostgres.NewTokenStore(pool, tokenName, nil)
	if err != nil {
		return err
	}
	store, err := lendingpostgres.NewIdempotencyStore(pool, logName, nil)
	if err != nil {
		return err
	}
	log, err := idempotency.NewLog(store, &idempotency.Options{MaxLateness: maxLateness})
	if err != nil {
		return err
	}
	client, err := lending.New(address,
		lending.WithCredentials(lending.Credentials{
			Username: lendingtest.Username,
			Password: lending.NewSecret(lendingtest.Password),
			TwoFactor: func(ctx context.Context, _ lending.Challenge) (string, error) {
				return readPhone(ctx, address)
			},
		}),
		lending.WithTokenStore(tokens),
		lending.WithIdempotency(log))
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		open, err := openOrders(ctx, pool)
		if err != nil || len(open) == 0 {
			return err
		}
		rand.Shuffle(len(open), func(i, j int) { open[i], open[j] = open[j], open[i] })
		for _, o := range open {
			if err := serve(ctx, pool, client, o); err != nil && !comesBack(err) {
				return fmt.Errorf("%s: %w", o.Name, err)
			}
		}
		select { // the other replicas need a moment for their orders
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// order is a row of the table of orders.
type order struct{ Name, Email string }

func openOrders(ctx context.Context, pool *pgxpool.Pool) ([]order, error) {
	rows, err := pool.Query(ctx, "SELECT name, email FROM orders WHERE NOT done")
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[order])
}

// serve calls all mutations of an order, from the top. The log replays finished mutations.
func serve(ctx context.Context, pool *pgxpool.Pool, client *lending.Client, o order) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	customer, err := client.Applications.CreateCustomer(lending.WithIdempotencyKey(ctx, o.Name+"/customer"), lending.UserRequest{
		FirstName: "Ada", LastName: "Lovelace", Email: o.Email, MobileNumber: "4155550100", Password: lending.NewSecret("Analytical-Engine-1"),
	})
	if err != nil {
		return err
	}
	_, err = client.Applications.Create(lending.WithIdempotencyKey(ctx, o.Name+"/application"), lending.ApplicationRequest{
		CustomerID: customer.ID, BusinessName: "Analytical Engines", BusinessZip: "94105",
	}, nil)
	if err == nil {
		_, err = pool.Exec(ctx, "UPDATE orders SET done = true WHERE name = $1", o.Name)
	}
	return err
}

// comesBack reports whether the order can continue later: another replica works on it, a replica
// died at it, or the time was too short.
func comesBack(err error) bool {
	for _, is := range []error{idempotency.ErrInProgress, idempotency.ErrInDoubt, idempotency.ErrLocked, context.DeadlineExceeded} {
		if errors.Is(err, is) {
			return true
		}
	}
	return false
}

// readPhone plays a person who reads the code from a phone.
func readPhone(ctx context.Context, address string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address+phonePath, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	code, err := io.ReadAll(response.Body)
	return string(code), err
}
