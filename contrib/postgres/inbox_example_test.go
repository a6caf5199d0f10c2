package lendingpostgres_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/webhook"

	lendingpostgres "github.com/lendingapi/lending-go/contrib/postgres"
)

// The writes of the function and the removal of the event commit together. Here the function fails
// once after its write, which is rolled back.
func ExampleInbox_WorkTx() {
	pool, stop := exampleDatabase() // use pgxpool.New instead
	defer stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := lendingpostgres.Migrate(ctx, pool, nil); err != nil {
		fmt.Println(err)
		return
	}
	if _, err := pool.Exec(ctx, "CREATE TABLE booked (event text)"); err != nil {
		fmt.Println(err)
		return
	}
	secret := lending.NewSecret("whs_0123456789abcdef0123456789abcdef")
	var calls atomic.Int32
	act := func(ctx context.Context, tx pgx.Tx, event *webhook.Event) error {
		_, err := tx.Exec(ctx, "INSERT INTO booked VALUES ($1)", event.Key())
		if calls.Add(1) == 1 {
			return errors.New("the ledger is closed")
		}
		return err
	}
	// For this example only: the default is 5 s to 1 h.
	options := &webhook.WorkOptions{Backoff: func(int) time.Duration { return 0 }}
	inbox, err := lendingpostgres.NewInbox(pool, "lending", nil)
	if err != nil {
		fmt.Println(err)
		return
	}

	receiver, err := webhook.NewReceiver(webhook.SignedWith(secret), inbox.Put, nil)
	if err != nil {
		fmt.Println(err)
		return
	}

	http.Handle("/webhooks", receiver)
	go inbox.WorkTx(ctx, act, options)

	const body = `{"webhookEvent":"WB_Loan_Created"}`
	for range 2 { // the same delivery
		r := httptest.NewRequest(http.MethodPost, "/webhooks", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set(webhook.SignatureHeader, lending.Sign(secret.Reveal(), []byte(body)))
		answer := httptest.NewRecorder()
		http.DefaultServeMux.ServeHTTP(answer, r)
		fmt.Println("answered", answer.Code)
	}
	for {
		counts, err := inbox.Counts(ctx)
		if err != nil || counts == (webhook.InboxCounts{}) {
			break
		}
		<-time.After(5 * time.Millisecond)
	}
	var booked int
	err = pool.QueryRow(ctx, "SELECT count(*) FROM booked").Scan(&booked)
	fmt.Println("calls:", calls.Load(), "booked:", booked, err)
	// Output:
	// answered 204
	// answered 204
	// calls: 2 booked: 1 <nil>
}

// An event from a transaction is in the inbox after the commit, and never without it.
func ExampleInbox_PutTx() {
	pool, stop := exampleDatabase() // use pgxpool.New instead
	defer stop()
	ctx := context.Background()
	if err := lendingpostgres.Migrate(ctx, pool, nil); err != nil {
		fmt.Println(err)
		return
	}
	inbox, err := lendingpostgres.NewInbox(pool, "lending", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	event, err := webhook.Parse([]byte(`{"webhookEvent":"WB_Loan_Created"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if err := inbox.PutTx(ctx, tx, event); err != nil {
			return err
		}
		counts, _ := inbox.Counts(ctx)
		fmt.Println("waiting before the commit:", counts.Waiting)
		return nil
	})
	counts, _ := inbox.Counts(ctx)
	fmt.Println("waiting after it:", counts.Waiting, err)
	// Output:
	// waiting before the commit: 0
	// waiting after it: 1 <nil>
}
