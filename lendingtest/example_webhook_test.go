package lendingtest_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/webhook"
)

// The service posts its events to a receiver on loopback, signed, and as badly as a
// test wants: here each one twice.
func ExampleService_AddSubscription() {
	var receiver http.Handler
	listener := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		receiver.ServeHTTP(w, r)
	}))
	defer listener.Close()
	service := lendingtest.New(lendingtest.WithLoopbackReceivers())
	defer service.Close()
	subscription := service.AddSubscription(lendingtest.Subscription{WebhookURI: listener.URL})

	inbox := webhook.NewMemoryInbox()
	receiver = must(webhook.NewReceiver(webhook.SignedWith(lending.NewSecret(subscription.Secret)), inbox.Put, nil))

	service.SetDeliveryMode(lendingtest.DeliveryMode{Copies: 1})
	service.UpdateLoan(service.AddLoan(lendingtest.Loan{}).ID, func(l *lendingtest.Loan) { l.IsClosed = true })
	if err := service.Wait(context.Background()); err != nil {
		fmt.Println(err)
	}
	for _, delivery := range service.Deliveries() {
		fmt.Println("delivered", delivery.Event, delivery.Status)
	}
	counts, err := inbox.Counts(context.Background())
	fmt.Println("stored:", counts.Waiting, err)
	// Output:
	// delivered WB_Loan_Closed 204
	// delivered WB_Loan_Closed 204
	// stored: 1 <nil>
}

// From the registration to the delivery: the receiver is registered as in production, by
// https and with the secret that the service gave, and is posted an event.
func ExampleWithDeliveryClient() {
	receiver := http.NewServeMux()
	listener := httptest.NewTLSServer(receiver)
	defer listener.Close()
	service := lendingtest.NewServer(lendingtest.WithDeliveryClient(listener.Client()))
	defer service.Close()
	client := clientOf(service.Service, service.URL)
	defer client.Close()

	ctx := context.Background()
	partner := lending.ForPartner(must(lending.ParsePartnerID(lendingtest.PartnerID)))
	ensured := must(client.Webhooks.Ensure(ctx, partner, lending.WebhookSubscription{
		WebhookURI: listener.URL + "/webhooks",
		Webhooks:   []lending.EventName{lending.EventLoanCreated},
	}))
	receiver.Handle("/webhooks", must(webhook.NewReceiver(webhook.SignedWith(ensured.Subscription.Secret),
		func(_ context.Context, event *webhook.Event) error {
			fmt.Println("received", event.Name)
			return nil
		}, nil)))

	if err := client.Webhooks.Simulate(ctx, partner, lending.EventLoanCreated); err != nil {
		fmt.Println(err)
	}
	if err := service.Wait(ctx); err != nil { // for the delivery
		fmt.Println(err)
	}
	// Output: received WB_Loan_Created
}
