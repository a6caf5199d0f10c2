package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/webhook"
)

// receiver is the partner's https server for webhooks, on loopback.
type receiver struct {
	server *httptest.Server

	mu     sync.Mutex
	secret lending.Secret
	names  []string
}

func newReceiver() (*receiver, error) {
	r := &receiver{}
	handler, err := webhook.NewReceiver(r.secrets, r.keep, nil)
	if err != nil {
		return nil, err
	}
	r.server = httptest.NewTLSServer(handler)
	return r, nil
}

func (r *receiver) Close() { r.server.Close() }

func (r *receiver) secrets(*http.Request) ([]lending.Secret, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return []lending.Secret{r.secret}, nil
}

// keep handles an event with a valid signature.
func (r *receiver) keep(_ context.Context, event *webhook.Event) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.names = append(r.names, strings.TrimPrefix(string(event.Name), "WB_"))
	return nil
}

// String lists the received events.
func (r *receiver) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.names, ", ")
}

// subscribe registers the receiver. The service generates the secret. Reading the subscription
// back returns the secret, and is also the only proof that the service saved the subscription.
func (r *receiver) subscribe(ctx context.Context, out io.Writer, client *lending.Client) error {
	partner, err := lending.ParsePartnerID(lendingtest.PartnerID)
	if err != nil {
		return err
	}
	target := lending.ForPartner(partner)
	if err := client.Webhooks.Register(ctx, target, lending.WebhookSubscription{WebhookURI: r.server.URL, IsActive: true}); err != nil {
		return err
	}
	saved, err := client.Webhooks.Subscription(ctx, target)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.secret = saved.Secret
	say(out, "Signed in. Registered a receiver for the partner's events and read the subscription with its secret: %v.", saved.Secret)
	return nil
}
