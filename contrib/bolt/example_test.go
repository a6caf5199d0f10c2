package lendingbolt_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/webhook"

	lendingbolt "github.com/lendingapi/lending-go/contrib/bolt"
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

// The receiver answers when the event is on the disk. If the program ends first, the next run of
// the program handles the event.
func Example() {
	directory, err := os.MkdirTemp("", "lending")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(directory)
	path := filepath.Join(directory, "webhooks.db") // use a permanent directory instead

	inbox, err := lendingbolt.OpenInbox(path, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	receiver, err := webhook.NewReceiver(webhook.SignedWith(lending.NewSecret(secret)), inbox.Put, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("answered:", deliver(receiver))
	fmt.Println("closed:", inbox.Close())

	inbox, err = lendingbolt.OpenInbox(path, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer inbox.Close()
	ctx, stop := context.WithCancel(context.Background())
	webhook.Work(ctx, inbox, func(_ context.Context, event *webhook.Event) error {
		fmt.Println("acted on", event.Name)
		stop() // your program works until its end
		return nil
	}, nil)
	// Output:
	// answered: 204
	// closed: <nil>
	// acted on WB_Loan_Opened
}

// A mutation with a key happens once, even if the program ends at any point and runs again.
func ExampleOpenIdempotencyStore() {
	directory, err := os.MkdirTemp("", "lending")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(directory)
	path := filepath.Join(directory, "commands.db") // use a permanent directory instead
	service := lendingtest.NewServer()
	defer service.Close()
	address, credentials := service.URL, lending.Credentials{
		Username: lendingtest.Username,
		Password: lending.NewSecret(lendingtest.Password),
		TwoFactor: func(context.Context, lending.Challenge) (string, error) {
			return service.TwoFactorCode(lendingtest.Username), nil // a person reads the code from a phone
		},
	}
	for range 2 { // the program runs twice
		store, err := lendingbolt.OpenIdempotencyStore(path, nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		keys, err := idempotency.NewLog(store, nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		client, err := lending.New(address, lending.WithCredentials(credentials), lending.WithIdempotency(keys))
		if err != nil {
			fmt.Println(err)
			return
		}
		ctx := lending.WithIdempotencyKey(context.Background(), "order-42/create-customer")
		_, err = client.Applications.CreateCustomer(ctx, lending.UserRequest{
			FirstName: "Ada", LastName: "Lovelace", Email: "ada@example.com",
			Password: lending.NewSecret("Analytical-Engine-1"), MobileNumber: "4155550100",
		})
		fmt.Println("created:", err == nil)
		client.Close()
		_ = store.Close()
	}
	fmt.Println("executed:", service.Executed("POST /api/Application/create-customer"))
	// Output:
	// created: true
	// created: true
	// executed: 1
}
