//go:build unix

package lendingredis_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/webhook"

	lendingredis "github.com/lendingapi/lending-go/contrib/redis"
)

const (
	secret   = "whs_0123456789abcdef0123456789abcdef" // of the subscription
	delivery = `{"webhookEvent":"WB_Loan_Opened","data":{"loanId":"11111111-2222-3333-4444-555555555555"}}`
)

// deliver posts the delivery, signed as the service signs.
func deliver(receiver http.Handler) int {
	r := httptest.NewRequest(http.MethodPost, "/webhooks", strings.NewReader(delivery))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(webhook.SignatureHeader, lending.Sign(secret, []byte(delivery)))
	w := httptest.NewRecorder()
	receiver.ServeHTTP(w, r)
	return w.Code
}

// A replica accepts an event, and another replica handles it.
func ExampleNewInbox() {
	rdb, stop := exampleRedis() // use redis.NewClient or NewClusterClient instead
	defer stop()
	ctx, end := context.WithCancel(context.Background())
	defer end()
	one, err := lendingredis.NewInbox(ctx, rdb, "webhooks", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	receiver, err := webhook.NewReceiver(webhook.SignedWith(lending.NewSecret(secret)), one.Put, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("answered:", deliver(receiver))

	another, err := lendingredis.NewInbox(ctx, rdb, "webhooks", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	webhook.Work(ctx, another, func(_ context.Context, event *webhook.Event) error {
		fmt.Println("acted on", event.Name)
		end() // your program works until its end
		return nil
	}, nil)
	// Output:
	// answered: 204
	// acted on WB_Loan_Opened
}

// The replicas of a program share a token, so a person enters one code. A mutation with a key happens once, even if
// several replicas call the mutation.
func ExampleNewIdempotencyStore() {
	rdb, stop := exampleRedis() // use redis.NewClient or NewClusterClient instead, and a durable Redis
	defer stop()
	service := lendingtest.NewServer()
	defer service.Close()
	replica := func() error {
		tokens, err := lendingredis.NewTokenStore(rdb, "lending:token")
		if err != nil {
			return err
		}
		store, err := lendingredis.NewIdempotencyStore(rdb, "lending", nil)
		if err != nil {
			return err
		}
		keys, err := idempotency.NewLog(store, nil)
		if err != nil {
			return err
		}
		client, err := lending.New(service.URL, lending.WithCredentials(lending.Credentials{
			Username: lendingtest.Username,
			Password: lending.NewSecret(lendingtest.Password),
			TwoFactor: func(context.Context, lending.Challenge) (string, error) {
				return service.TwoFactorCode(lendingtest.Username), nil // a person reads the code from a phone
			},
		}), lending.WithTokenStore(tokens), lending.WithIdempotency(keys))
		if err != nil {
			return err
		}
		defer client.Close()
		ctx := lending.WithIdempotencyKey(context.Background(), "order-42/create-customer")
		_, err = client.Applications.CreateCustomer(ctx, lending.UserRequest{
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
