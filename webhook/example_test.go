package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/webhook"
)

const (
	loanOpened = `{"webhookEvent":"WB_Loan_Opened","data":{"loanId":"11111111-2222-3333-4444-555555555555"},` +
		`"creationTimeUtc":"2024-01-02T03:04:05.1234567Z"}`
	withdrawn = `{"webhookEvent":"WB_Loan_Withdrawal_Completed","data":{"withdrawalId":"w-1"},` +
		`"creationTimeUtc":"2026-08-03T04:05:06Z"}`
)

// must is for examples, which show no handling of errors.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// deliverSigned posts body to a path of the receiver, as the service does.
func deliverSigned(receiver http.Handler, path, secret, body string) int {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(webhook.SignatureHeader, lending.Sign(secret, []byte(body)))
	w := httptest.NewRecorder()
	receiver.ServeHTTP(w, r)
	return w.Code
}

// A receiver goes into any mux. It handles a repeated delivery again.
func ExampleNewReceiver() {
	handle := webhook.EventFuncs{
		lending.EventLoanOpened: func(_ context.Context, event *webhook.Event) error {
			var data struct{ LoanID lending.LoanID }
			if err := event.Data.Decode(&data); err != nil {
				return err
			}
			fmt.Println("opened:", data.LoanID)
			return nil
		},
	}.Or(func(_ context.Context, event *webhook.Event) error {
		fmt.Println("ignored:", event.Name)
		return nil
	})
	secret := lending.NewSecret("whs_0123456789abcdef0123456789abcdef") // of the subscription
	receiver, err := webhook.NewReceiver(webhook.SignedWith(secret), handle, nil)
	if err != nil {
		fmt.Println(err)
		return
	}

	fmt.Println(deliverSigned(receiver, "/webhooks", secret.Reveal(), loanOpened))
	fmt.Println(deliverSigned(receiver, "/webhooks", secret.Reveal(), withdrawn))
	fmt.Println(deliverSigned(receiver, "/webhooks", "not the secret", loanOpened))
	// Output:
	// opened: 11111111-2222-3333-4444-555555555555
	// 204
	// ignored: WB_Loan_Withdrawal_Completed
	// 204
	// 401
}

// The published fields of an event's data are typed. Its Record has the others.
func ExampleApplicationCreated() {
	event := must(webhook.Parse([]byte(
		`{"webhookEvent":"WB_Application_Created","data":{"extraInformation":{"years":"7"}}}`)))
	var created webhook.ApplicationCreated
	if err := event.Data.Decode(&created); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("in business for", created.ExtraInformation.Years, "years")
	// Output: in business for 7 years
}

// One receiver serves several subscriptions, each with its own secret.
func ExampleSecretsFunc() {
	secrets := map[string]lending.Secret{
		"north": lending.NewSecret("secret-of-north"), "south": lending.NewSecret("secret-of-south"),
	}
	byPath := func(r *http.Request) ([]lending.Secret, error) {
		secret, known := secrets[r.PathValue("subscription")]
		if !known {
			return nil, nil // the answer is 401; an error would be answered with 500
		}
		return []lending.Secret{secret}, nil
	}
	accept := func(context.Context, *webhook.Event) error { return nil }
	mux := http.NewServeMux()
	mux.Handle("/webhooks/{subscription}", must(webhook.NewReceiver(byPath, accept, nil)))

	fmt.Println(deliverSigned(mux, "/webhooks/north", "secret-of-north", loanOpened))
	fmt.Println(deliverSigned(mux, "/webhooks/south", "secret-of-north", loanOpened))
	fmt.Println(deliverSigned(mux, "/webhooks/west", "secret-of-north", loanOpened))
	// Output:
	// 204
	// 401
	// 401
}

// An inbox answers the service as soon as the event is stored. A worker handles it later.
func ExampleWork() {
	inbox := webhook.NewMemoryInbox() // those of contrib/bolt and contrib/postgres survive the process
	event := must(webhook.Parse([]byte(loanOpened)))
	fmt.Println("accepted:", inbox.Put(context.Background(), event)) // the EventFunc of a receiver

	ctx, stop := context.WithCancel(context.Background())
	webhook.Work(ctx, inbox, func(_ context.Context, event *webhook.Event) error {
		fmt.Println("handled", event.Name)
		stop() // a program works until it ends
		return nil
	}, nil)
	// Output:
	// accepted: <nil>
	// handled WB_Loan_Opened
}

// A failing event is tried again. After MaxTries it is a dead letter: a person reads the cause, corrects it and has
// the event handled again.
func ExampleWork_retries() {
	inbox := webhook.NewMemoryInbox()
	ctx, stop := context.WithCancel(context.Background())
	fmt.Println("accepted:", inbox.Put(ctx, must(webhook.Parse([]byte(loanOpened)))))

	webhook.Work(ctx, inbox, func(context.Context, *webhook.Event) error {
		return errors.New("the ledger is closed")
	}, &webhook.WorkOptions{
		MaxTries:    2,
		Concurrency: 1,
		Backoff:     func(int) time.Duration { return 0 }, // for this example; the default is 5 s to 1 h
		Observe: func(r webhook.Result) {
			fmt.Println("try", r.Tries, "of", r.Event+":", r.Err)
			if r.DeadLettered {
				stop()
			}
		},
	})
	ctx = context.Background()
	letters, err := inbox.DeadLetters(ctx, webhook.DeadLetterFilter{Event: lending.EventLoanOpened})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, letter := range letters {
		fmt.Println(letter.Event, letter.Cause, letter.Tries)
	}
	redriven, err := webhook.RedriveAll(ctx, inbox, webhook.DeadLetterFilter{Event: lending.EventLoanOpened})
	fmt.Println("redriven:", redriven, err)
	// Output:
	// accepted: <nil>
	// try 1 of WB_Loan_Opened: the ledger is closed
	// try 2 of WB_Loan_Opened: the ledger is closed
	// WB_Loan_Opened the ledger is closed 2
	// redriven: 1 <nil>
}
