// Receiver accepts the service's webhooks into an inbox in PostgreSQL. Its function handles each
// event in the same transaction that removes the event from the inbox. The function fails once
// after its write, is called again, and its write is still there only once.
//
// The program needs Go and an installed PostgreSQL server, and starts a server of its own in a
// temporary folder. The service runs in this program. Take the functions receive and act over
// into your program.
//
//	go -C contrib/postgres run ./examples/receiver
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/pgtest"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/webhook"

	lendingpostgres "github.com/lendingapi/lending-go/contrib/postgres"
)

const (
	loans   = 6
	workers = 4
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "receiver:", err)
		os.Exit(1)
	}
}

// receive creates the inbox and its HTTP handler, and starts workers that handle events until
// ctx ends.
func receive(ctx context.Context, pool *pgxpool.Pool, secrets webhook.SecretsFunc, act lendingpostgres.TxFunc, observe func(webhook.Result)) (handler http.Handler, worked <-chan struct{}, err error) {
	inbox, err := lendingpostgres.NewInbox(pool, "lending", nil)
	if err != nil {
		return nil, nil, err
	}
	if handler, err = webhook.NewReceiver(secrets, inbox.Put, nil); err != nil {
		return nil, nil, err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		inbox.WorkTx(ctx, act, &webhook.WorkOptions{
			Concurrency: workers,
			Backoff:     func(int) time.Duration { return 100 * time.Millisecond }, // the defaults suit longer outages
			Observe:     observe,
		})
	}()
	return handler, ended, nil
}

// act books a loan in a table of the program. The commit of tx also removes the event from the
// inbox.
func act(ctx context.Context, tx pgx.Tx, event *webhook.Event) error {
	if event.Name != lending.EventLoanCreated {
		return nil // the event needs no action
	}
	_, err := tx.Exec(ctx, "INSERT INTO booked (event) VALUES ($1)", event.Key())
	return err
}

// failing returns act with a failure in the third call, after the write.
func failing(calls *atomic.Int32) lendingpostgres.TxFunc {
	return func(ctx context.Context, tx pgx.Tx, event *webhook.Event) error {
		if err := act(ctx, tx, event); err != nil {
			return err
		}
		if calls.Add(1) == 3 {
			return errors.New("a failure")
		}
		return nil
	}
}

func run(ctx context.Context, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	cluster, err := pgtest.New() // use your own database instead
	if err != nil {
		return err
	}
	defer cluster.Close()
	config, err := pgxpool.ParseConfig(cluster.URL("postgres"))
	if err != nil {
		return err
	}
	config.MaxConns = workers + 2 // two connections take and put events
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := lendingpostgres.Migrate(ctx, pool, nil); err != nil {
		return err
	}
	// The table has no unique constraint: a second booking of a loan would be visible.
	if _, err := pool.Exec(ctx, "CREATE TABLE booked (event text)"); err != nil {
		return err
	}

	var secret atomic.Pointer[lending.Secret] // known after the subscription of the receiver's address
	secret.Store(new(lending.Secret))
	var calls atomic.Int32
	booked := make(chan struct{}, loans)
	working, stop := context.WithCancel(ctx)
	handler, worked, err := receive(working, pool, func(*http.Request) ([]lending.Secret, error) {
		return []lending.Secret{*secret.Load()}, nil
	}, failing(&calls), func(h webhook.Result) {
		if h.Event == lending.EventLoanCreated && h.Err == nil {
			booked <- struct{}{}
		}
	})
	if err != nil {
		stop()
		return err
	}
	defer func() {
		stop()
		<-worked
	}()
	server := httptest.NewTLSServer(handler)
	defer server.Close()
	if err := deliver(ctx, out, server, &secret); err != nil {
		return err
	}
	for range loans {
		select {
		case <-booked:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	fmt.Fprintf(out, "The function was called %d times: once it failed after it had booked a loan, which was rolled back.\n", calls.Load())
	return count(ctx, out, pool)
}

// deliver creates loans in the embedded service, which delivers the event of each loan twice.
func deliver(ctx context.Context, out io.Writer, receiver *httptest.Server, secret *atomic.Pointer[lending.Secret]) error {
	service := lendingtest.NewServer(lendingtest.WithDeliveryClient(receiver.Client()))
	defer service.Close()
	client, err := lending.New(service.URL, lending.WithCredentials(lending.Credentials{
		Username:           lendingtest.Username,
		Password:           lending.NewSecret(lendingtest.Password),
		TrustedDeviceToken: lending.NewSecret(lendingtest.TrustedDeviceToken),
	}))
	if err != nil {
		return err
	}
	defer client.Close()
	id, err := lending.ParsePartnerID(lendingtest.PartnerID)
	if err != nil {
		return err
	}
	partner := lending.ForPartner(id)
	ensured, err := client.Webhooks.Ensure(ctx, partner, lending.WebhookSubscription{WebhookURI: receiver.URL})
	if err != nil {
		return err
	}
	secret.Store(&ensured.Subscription.Secret)
	fmt.Fprintln(out, "A service, a receiver and a PostgreSQL server are running: nothing leaves this machine.")
	service.SetDeliveryMode(lendingtest.DeliveryMode{Copies: 1})
	for range loans {
		if err := client.Webhooks.Simulate(ctx, partner, lending.EventLoanCreated); err != nil {
			return err
		}
	}
	err = service.Wait(ctx)
	accepted := 0
	for _, delivery := range service.Deliveries() {
		if delivery.Status == http.StatusNoContent {
			accepted++
		}
	}
	defer fmt.Fprintf(out, "%d loans were created, and the event of each was delivered twice: %d deliveries, all answered with success.\n", loans, accepted)
	return err
}

// count prints the contents of the tables.
func count(ctx context.Context, out io.Writer, pool *pgxpool.Pool) error {
	var rows, different int
	if err := pool.QueryRow(ctx, "SELECT count(*), count(DISTINCT event) FROM booked").Scan(&rows, &different); err != nil {
		return err
	}
	inbox, err := lendingpostgres.NewInbox(pool, "lending", nil)
	if err != nil {
		return err
	}
	left, err := inbox.Counts(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "The table of the program has %d rows, of %d events: each is there once.\n", rows, different)
	fmt.Fprintf(out, "The inbox is empty: %t\n", left == webhook.InboxCounts{})
	if rows != loans || different != loans {
		return errors.New("not each event is there once")
	}
	return nil
}
