package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"

	lendingpostgres "github.com/lendingapi/lending-go/contrib/postgres"
)

const (
	tokenName   = "lending administrator" // one for each account and each service
	journalName = "lending"
	lastStep    = "/application"

	patience = time.Second // for one command, and so for how long others leave it to a replica that has died
	// The service executes nothing later than its caller is gone for that long. How long a
	// real one can take is not published: the default is five minutes.
	quiet = 300 * time.Millisecond
)

// work takes orders along until none is left. Every replica does the same.
func work(ctx context.Context, address, database string) error {
	pool, err := pgxpool.New(ctx, database)
	if err != nil {
		return err
	}
	defer pool.Close()
	store := lendingpostgres.NewJournalStore(pool, journalName)
	client, err := lending.New(address,
		lending.WithCredentials(lending.Credentials{
			Username: lendingtest.Username,
			Password: lending.NewSecret(lendingtest.Password),
			TwoFactor: func(ctx context.Context, _ lending.Challenge) (string, error) {
				return readPhone(ctx, address)
			},
		}),
		lending.WithTokenStore(lendingpostgres.NewTokenStore(pool, tokenName)),
		lending.WithJournal(lending.NewJournal(store, &lending.JournalOptions{Quiet: quiet})))
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		intents, err := store.Intended(ctx, 100)
		if err != nil || len(intents) == 0 {
			return err
		}
		rand.Shuffle(len(intents), func(i, j int) { intents[i], intents[j] = intents[j], intents[i] })
		for _, intent := range intents {
			if err := serve(ctx, pool, client, strings.TrimSuffix(intent.Key, lastStep)); err != nil && !comesBack(err) {
				return fmt.Errorf("%s: %w", intent.Key, err)
			}
		}
		select { // what others are at takes them a moment
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// serve does all commands of an order, from the top: what is done is not done again.
func serve(ctx context.Context, pool *pgxpool.Pool, client *lending.Client, order string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var email string
	if err := pool.QueryRow(ctx, "SELECT email FROM orders WHERE name = $1", order).Scan(&email); err != nil {
		return err
	}
	customer, err := client.Applications.CreateCustomer(lending.WithKey(ctx, order+"/customer"), lending.UserRequest{
		FirstName: "Ada", LastName: "Lovelace", Email: email, MobileNumber: "4155550100", Password: lending.NewSecret("Analytical-Engine-1"),
	})
	if err != nil {
		return err
	}
	_, err = client.Applications.Create(lending.WithKey(ctx, order+lastStep), lending.ApplicationRequest{
		CustomerID: customer.ID, BusinessName: "Analytical Engines", BusinessZip: "94105",
	}, nil)
	return err
}

// comesBack reports whether an order can go on later: another replica is at it, or one was
// when it died, or its time is over.
func comesBack(err error) bool {
	for _, is := range []error{lending.ErrInProgress, lending.ErrUnsettled, lending.ErrScopeHeld, context.DeadlineExceeded} {
		if errors.Is(err, is) {
			return true
		}
	}
	return false
}

// readPhone is a person who reads the code from a phone.
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
