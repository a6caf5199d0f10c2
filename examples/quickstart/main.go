// Quickstart does everything for a loan: sign-in with a two-factor code, customer, application,
// bank data, offer, approval, documents, signature, loan and withdrawal with a one-time password.
// Meanwhile it receives webhooks. A response is lost, and nothing happens twice.
//
// The program needs only Go, because it contains the service. The command lending-probe calls a real
// service. The code for your own program is in journey.go.
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/webhook"
)

const createApplication = "POST /api/Application/create-application"

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

// run does the whole journey with a service in this program.
func run(ctx context.Context, out io.Writer) error {
	mux := http.NewServeMux()
	server := httptest.NewTLSServer(mux) // your server for webhooks
	defer server.Close()
	service := lendingtest.NewServer(lendingtest.WithDeliveryClient(server.Client()))
	defer service.Close()
	say(out, "The service runs inside this program. Nothing leaves this machine.")
	// With the log, a call with an idempotency key that is made again finds out what has happened,
	// instead of sending the command again. The stores under contrib survive the program.
	keys, err := idempotency.NewLog(store.NewMemory(), nil)
	if err != nil {
		return err
	}
	client, err := lending.New(service.URL, lending.WithIdempotency(keys), lending.WithCredentials(lending.Credentials{
		Username: lendingtest.Username,
		Password: lending.NewSecret(lendingtest.Password),
		TwoFactor: func(context.Context, lending.Challenge) (string, error) {
			say(out, "The username and password are right. The service sends a two-factor code, which the program reads.")
			return service.TwoFactorCode(lendingtest.Username), nil
		},
	}))
	if err != nil {
		return err
	}
	defer client.Close()

	say(out, "\nSign-in with the first call")
	inbox := webhook.NewMemoryInbox() // those under contrib survive the program, and hand the events to workers
	if err := subscribe(ctx, out, client, server.URL, mux, inbox); err != nil {
		return err
	}
	service.Fail(createApplication, lendingtest.Fault{ResetAfter: true}) // executed, but the response is lost
	j := &journey{
		out: out, client: client, email: "ada@example.com", asked: time.Now(),
		otp: func(loan lending.LoanID) string { return service.OTP(loan.String()) },
	}
	for _, part := range []func(context.Context) error{j.apply, j.approve, j.withdraw} {
		if err := j.retrying(ctx, part); err != nil {
			return err
		}
	}
	if err := service.Wait(ctx); err != nil { // for the deliveries in progress
		return err
	}
	stored, err := inbox.Counts(ctx)
	say(out, "\nThe service has created %d application.", service.Executed(createApplication))
	say(out, "Meanwhile %d webhooks arrived with valid signatures. They wait in the inbox.", stored.Waiting)
	return err
}

// subscribe subscribes to the events of a partner. The service makes the secret of the signatures.
func subscribe(
	ctx context.Context, out io.Writer, client *lending.Client, address string, mux *http.ServeMux, inbox webhook.Inbox,
) error {
	partner, err := lending.ParsePartnerID(lendingtest.PartnerID)
	if err != nil {
		return err
	}
	ensured, err := client.Webhooks.Ensure(ctx, lending.ForPartner(partner), lending.WebhookSubscription{
		WebhookURI: address + "/webhooks",
	})
	if err != nil {
		return err
	}
	receiver, err := webhook.NewReceiver(webhook.SignedWith(ensured.Subscription.Secret), inbox.Put, nil)
	if err != nil {
		return err
	}
	mux.Handle("/webhooks", receiver)
	say(out, "Signed in, and subscribed to the partner's events. Their signing secret: %v.", ensured.Subscription.Secret)
	return nil
}

func say(out io.Writer, format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) }
