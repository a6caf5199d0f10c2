package lendingbolt_test

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/webhook"

	lendingbolt "github.com/lendingapi/lending-go/contrib/bolt"
)

//nolint:lll // as in README
func run(ctx context.Context, address string, credentials lending.Credentials, partner lending.PartnerID, server *http.Server) error {
	entries, err := lendingbolt.OpenIdempotencyStore("mutations.db", nil)
	if err != nil {
		return err
	}
	defer entries.Close()
	keys, err := idempotency.NewLog(entries, nil)
	if err != nil {
		return err
	}
	client, err := lending.New(address, lending.WithCredentials(credentials), lending.WithIdempotency(keys))
	if err != nil {
		return err
	}
	defer client.Close()
	inbox, err := lendingbolt.OpenInbox("webhooks.db", nil)
	if err != nil {
		return err
	}
	defer inbox.Close()
	subscription := lending.WebhookSubscription{WebhookURI: "https://partner.example/webhooks"}
	handle := webhook.EventFuncs{lending.EventLoanCreated: loanCreated}.Or(unknownEvent) // your functions
	consumer, err := webhook.NewConsumer(client, lending.ForPartner(partner), subscription, inbox, handle,
		&webhook.ConsumerOptions{Sweep: keys.Sweep, Check: keys.Check, Audit: keys.AuditDaily, Logger: slog.Default()})
	if err != nil {
		return err
	}
	server.Handler = consumer        // or a mux with consumer at /webhooks, and the rest of your program
	return consumer.Run(ctx, server) // until ctx ends
}
