package lending_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/webhook"
)

// Success alone proves no save: the subscription that is read back does, and it holds
// the secret that verifies deliveries.
func ExampleWebhooksService_Register() {
	_, client := demo()
	ctx := context.Background()
	target := lending.ForPartner(must(lending.ParsePartnerID(lendingtest.PartnerID)))
	err := client.Webhooks.Register(ctx, target, lending.WebhookSubscription{
		WebhookURI: "https://partner.example/webhooks",
		Webhooks:   []lending.EventName{lending.EventLoanCreated, lending.EventLoanWithdrawalCompleted},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	saved, err := client.Webhooks.Subscription(ctx, target)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(saved.WebhookURI, saved.Webhooks, saved.Secret)
	// Output: https://partner.example/webhooks [WB_Loan_Created WB_Loan_Withdrawal_Completed] [redacted]
}

// On every deploy: it registers only what is missing or differs, and proves the save.
func ExampleWebhooksService_Ensure() {
	service, client := demo()
	target := lending.ForPartner(must(lending.ParsePartnerID(lendingtest.PartnerID)))
	for range 2 {
		ensured, err := client.Webhooks.Ensure(context.Background(), target, lending.WebhookSubscription{
			WebhookURI: "https://partner.example/webhooks",
			Webhooks:   []lending.EventName{lending.EventLoanCreated},
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("created:", ensured.Created, "secret:", ensured.Subscription.Secret)
	}
	fmt.Println("registered:", service.Executed("POST /api/Webhook/register"))
	// Output:
	// created: true secret: [redacted]
	// created: false secret: [redacted]
	// registered: 1
}

// A test of your receiver signs a delivery as the service does, and posts it.
func ExampleSign() {
	const secret = "whs_0123456789abcdef0123456789abcdef"
	receiver, err := webhook.NewReceiver(webhook.SignedWith(lending.NewSecret(secret)), func(_ context.Context, event *webhook.Event) error {
		fmt.Println("accepted", event.Name)
		return nil
	}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}

	body := []byte(`{"id":"3fa85f64-5717-4562-b3fc-2c963f66afa6","webhookEvent":"WB_Loan_Created",
		"data":{"loanId":"11111111-2222-3333-4444-555555555555"},"creationTimeUtc":"2026-08-03T04:05:06Z"}`)
	for _, signature := range []string{lending.Sign(secret, body), lending.Sign("another secret", body)} {
		request := httptest.NewRequest(http.MethodPost, "/webhooks", strings.NewReader(string(body)))
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set(lending.SignatureHeader, signature)
		answer := httptest.NewRecorder()
		receiver.ServeHTTP(answer, request)
		fmt.Println(answer.Code)
	}
	// Output:
	// accepted WB_Loan_Created
	// 204
	// 401
}

// A receiver of your own verifies the bytes as they came, before it parses them.
func ExampleVerify() {
	body := []byte(`{"x":1}`)
	signature := "sha256=5C-4D-AA-5E-98-5F-0A-A0-45-95-10-72-3C-45-E1-5E-DF-56-58-44-A0-43-51-77-49-5D-00-F8-03-E7-F0-2A"
	fmt.Println(lending.Verify("whs_0123456789abcdef0123456789abcdef", body, signature))

	encodedAgain := []byte(`{"x": 1}`)
	err := lending.Verify("whs_0123456789abcdef0123456789abcdef", encodedAgain, signature)
	fmt.Println(errors.Is(err, lending.ErrSignature))
	// Output:
	// <nil>
	// true
}

// What is published of an event's data is typed. The rest is in its Record.
func ExampleApplicationCreated() {
	handle := func(_ context.Context, event *webhook.Event) error {
		var created webhook.ApplicationCreated
		err := event.Data.Decode(&created)
		fmt.Println("in business for", created.ExtraInformation.Years, "years")
		return err
	}
	event, err := webhook.Parse([]byte(`{"webhookEvent":"WB_Application_Created","data":{"extraInformation":{"years":"7"}}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(handle(context.Background(), event))
	// Output:
	// in business for 7 years
	// <nil>
}

// One receiver for several subscriptions, each with a secret of its own.
func ExampleSecretsFunc() {
	secrets := map[string]lending.Secret{"north": lending.NewSecret("secret-of-north"), "south": lending.NewSecret("secret-of-south")}
	byPath := func(r *http.Request) ([]lending.Secret, error) {
		secret, known := secrets[r.PathValue("subscription")]
		if !known {
			return nil, nil // nothing is accepted; an error would be answered with 500
		}
		return []lending.Secret{secret}, nil
	}
	receiver, err := webhook.NewReceiver(byPath, func(context.Context, *webhook.Event) error { return nil }, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("/webhooks/{subscription}", receiver)

	fmt.Println(deliverSigned(mux, "/webhooks/north", "secret-of-north", loanOpened))
	fmt.Println(deliverSigned(mux, "/webhooks/south", "secret-of-north", loanOpened))
	fmt.Println(deliverSigned(mux, "/webhooks/west", "secret-of-north", loanOpened))
	// Output:
	// 204
	// 401
	// 401
}

// Once swallows what is repeated byte for byte, OnceBy what the service sends again.
func ExampleOnce() {
	deduper := webhook.NewMemoryDeduper(nil)
	byWithdrawal := func(event *webhook.Event) string {
		var data struct{ WithdrawalID string } // the embedded service's name: the interface shows none
		_ = event.Data.Decode(&data)
		return data.WithdrawalID
	}
	handle := func(context.Context, *webhook.Event) error {
		fmt.Println("acted on")
		return nil
	}
	handle = webhook.Once(deduper, webhook.OnceBy(deduper, byWithdrawal, handle))

	const delivery = `{"webhookEvent":"WB_Loan_Withdrawal_Completed","data":{"withdrawalId":"w-1"},"creationTimeUtc":"2026-08-03T04:05:06Z"}`
	for _, body := range []string{delivery, delivery, strings.Replace(delivery, "04:05", "04:06", 1)} {
		event, err := webhook.Parse([]byte(body))
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(handle(context.Background(), event))
	}
	// Output:
	// acted on
	// <nil>
	// lending/webhook: event: it has been acted on before
	// lending/webhook: event: it has been acted on before
}

// The service sends an event again, with another time and signature, until it is
// accepted. An identifier in its data tells that it is the same.
func ExampleOnceBy() {
	service := lendingtest.New()
	loan := service.AddLoan(lendingtest.Loan{})
	subscription := service.AddSubscription(lendingtest.Subscription{WebhookURI: "https://partner.example/webhooks"})

	byLoan := func(event *webhook.Event) string {
		var data struct{ LoanID string }
		_ = event.Data.Decode(&data)
		return string(event.Name) + " " + data.LoanID
	}
	handle := webhook.OnceBy(webhook.NewMemoryDeduper(nil), byLoan,
		func(context.Context, *webhook.Event) error { fmt.Println("the loan is closed"); return nil })
	receiver, err := webhook.NewReceiver(webhook.SignedWith(lending.NewSecret(subscription.Secret)), handle, &webhook.ReceiverOptions{
		Observe: func(d webhook.Delivery) { fmt.Println(d.Status, d.Err) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	for _, created := range []string{"2026-08-03T04:05:06Z", "2026-08-03T04:06:06Z"} {
		deliverSigned(receiver, "/webhooks", subscription.Secret,
			`{"webhookEvent":"WB_Loan_Closed","data":{"loanId":"`+loan.ID+`"},"creationTimeUtc":"`+created+`"}`)
	}
	// Output:
	// the loan is closed
	// 204 <nil>
	// 204 lending/webhook: event: it has been acted on before
}

// An inbox answers the service as soon as the event is safe, whatever the action takes.
func ExampleWork() {
	inbox := webhook.NewMemoryInbox() // contrib/bolt and contrib/redis have those that last
	event, err := webhook.Parse([]byte(`{"webhookEvent":"WB_Loan_Opened","data":{}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("accepted:", inbox.Put(context.Background(), event)) // what a receiver calls

	ctx, stop := context.WithCancel(context.Background())
	webhook.Work(ctx, inbox, func(_ context.Context, event *webhook.Event) error {
		fmt.Println("acted on", event.Name)
		stop() // a program works until it ends
		return nil
	}, nil)
	// Output:
	// accepted: <nil>
	// acted on WB_Loan_Opened
}

// What fails is tried again, and in the end set aside for a person to look at.
func ExampleWork_retries() {
	inbox := webhook.NewMemoryInbox()
	event, err := webhook.Parse([]byte(`{"webhookEvent":"WB_Loan_Opened","data":{}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	fmt.Println("accepted:", inbox.Put(ctx, event))

	webhook.Work(ctx, inbox, func(context.Context, *webhook.Event) error {
		return errors.New("the ledger is closed")
	}, &webhook.WorkOptions{
		MaxTries:    2,
		Concurrency: 1,                                    // for this output too
		Backoff:     func(int) time.Duration { return 0 }, // for this output; by itself it waits from 5 s to 1 h
		Observe: func(h webhook.Result) {
			fmt.Println("try", h.Tries, "of", h.Event+":", h.Err)
			if h.DeadLettered {
				stop()
			}
		},
	})
	counts, err := inbox.Counts(context.Background())
	fmt.Println("set aside:", counts.DeadLetters, err)
	// Output:
	// accepted: <nil>
	// try 1 of WB_Loan_Opened: the ledger is closed
	// try 2 of WB_Loan_Opened: the ledger is closed
	// set aside: 1 <nil>
}

// deliverSigned posts body to a path of the receiver, signed as the service signs.
func deliverSigned(receiver http.Handler, path, secret, body string) int {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(lending.SignatureHeader, lending.Sign(secret, []byte(body)))
	w := httptest.NewRecorder()
	receiver.ServeHTTP(w, r)
	return w.Code
}

const loanOpened = `{"webhookEvent":"WB_Loan_Opened","data":{"loanId":"11111111-2222-3333-4444-555555555555"},"creationTimeUtc":"2024-01-02T03:04:05.1234567Z"}`

// A receiver that acts on each delivery once. It goes into any mux.
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
	}.Handle
	secret := lending.NewSecret("whs_0123456789abcdef0123456789abcdef") // of the subscription
	receiver, err := webhook.NewReceiver(webhook.SignedWith(secret), webhook.Once(webhook.NewMemoryDeduper(nil), handle), nil)
	if err != nil {
		fmt.Println(err)
		return
	}

	fmt.Println(deliverSigned(receiver, "/webhooks", secret.Reveal(), loanOpened))
	fmt.Println(deliverSigned(receiver, "/webhooks", secret.Reveal(), loanOpened))
	fmt.Println(deliverSigned(receiver, "/webhooks", "not the secret", loanOpened))
	// Output:
	// opened: 11111111-2222-3333-4444-555555555555
	// 204
	// 204
	// 401
}
