// Quickstart signs in with a two-factor code, and carries an order out, from a new customer to a confirmed
// withdrawal. Meanwhile webhooks arrive. A response is lost, and nothing happens twice.
//
// The program needs only Go, because the service runs inside. The command lending-probe calls a real
// service. The calls are those of package examples/order, for you to take over into your program.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"strings"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/examples/order"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/orders"
	"github.com/lendingapi/lending-go/webhook"
)

const createApplication = "POST /api/Application/create-application"

// done has a sentence for each mutation, by the name of its route.
var done = map[string]string{
	"create-customer":               "Created the customer Ada Lovelace.",
	"create-application":            "Created an application for Lovelace Analytics.",
	"add-or-update-banking-data":    "Sent the bank data of the company.",
	"process-application":           "Processed the application. The service makes an offer.",
	"add-company-details":           "Added the details of the company.",
	"add-primary-applicant-details": "Added the details of the applicant.",
	"set-primary-bank-account":      "Chose the account for payments.",
	"submit-required-document":      "Uploaded a document that the service asked for.",
	"sign-contract":                 "Ada signed the contract. The service opens a loan.",
	"make-withdrawal-invoice":       "Started a withdrawal. The service sends a one-time password.",
	"confirm-withdrawal-invoice":    "Confirmed the withdrawal with the password. The service pays out the money.",
}

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

// run carries an order out with a service in this program.
func run(ctx context.Context, out io.Writer) error {
	mux := http.NewServeMux()
	server := httptest.NewTLSServer(mux) // your server for webhooks
	defer server.Close()
	service := lendingtest.NewServer(lendingtest.WithDeliveryClient(server.Client()))
	defer service.Close()
	say(out, "The service runs inside this program. Nothing leaves this machine.")
	// With the log, a call with an idempotency key that is made again finds out what has happened,
	// instead of sending the mutation again. The stores under contrib survive the program.
	keys, err := idempotency.NewLog(store.NewMemory(), &idempotency.Options{SafeToRepeat: order.SafeToRepeat})
	if err != nil {
		return err
	}
	client, err := lending.New(service.URL, lending.WithIdempotency(keys), lending.WithObserver(tell(out), nil),
		lending.WithCredentials(lending.Credentials{
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
	say(out, "\nAn order, from customer to withdrawal")
	service.Fail(createApplication, lendingtest.Fault{ResetAfter: true}) // executed, but the response is lost
	enter := func(_ context.Context, _ order.Order, loan lending.LoanID, _ int) (lending.Secret, error) {
		return lending.NewSecret(service.OTP(loan.String())), nil // your customer reads the password from a phone
	}
	ended, err := carryOut(ctx, out, &order.Partner{Client: client, Log: keys, Ask: enter})
	if err != nil {
		return err
	}
	if err := service.Wait(ctx); err != nil { // for the deliveries in progress
		return err
	}
	offer, err := lending.As[struct {
		Amount json.Number // exact, not a float
		Terms  int
	}](client.Applications.Offer(ctx, ended.Application, nil)) // a read needs no key
	if err != nil {
		return err
	}
	stored, err := inbox.Counts(ctx)
	say(out, "\nOf the offered %s, to be repaid over %d months, the customer has %s.", offer.Amount, offer.Terms, ended.Amount)
	say(out, "The service has created %d application.", service.Executed(createApplication))
	say(out, "Meanwhile %d webhooks arrived with valid signatures. They wait in the inbox.", stored.Waiting)
	return err
}

// tell returns an observer that says what the calls have done.
func tell(out io.Writer) func(context.Context, lending.Call) (context.Context, func(lending.Call)) {
	return func(ctx context.Context, _ lending.Call) (context.Context, func(lending.Call)) {
		return ctx, func(call lending.Call) {
			route, _, _ := strings.Cut(call.Route, "/{")
			switch sentence := done[path.Base(route)]; {
			case sentence == "" || call.Err != nil:
			case call.Idempotency == idempotency.ActionReplayed:
				say(out, "Known to the log: %s", sentence)
			case call.Idempotency == idempotency.ActionRebuilt:
				say(out, "A read shows: %s", sentence)
			default:
				say(out, "%s", sentence)
			}
		}
	}
}

// carryOut runs an order until it ends, and returns the order.
func carryOut(ctx context.Context, out io.Writer, partner *order.Partner) (order.Order, error) {
	all, _ := order.Orders(1)
	id, table := all[0].ID, order.NewTable(all...)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	worker, err := partner.Worker(table, &orders.Options{Report: func(r orders.Result) {
		if r.Err != nil {
			say(out, "An error: %v", r.Err)
			say(out, "The next step is: %s. With the same keys, nothing happens twice.", r.Next)
		}
		if r.Next.Person || table.Get(id).State != order.Open {
			stop() // a backend goes on with further orders, and alerts a person
		}
	}})
	if err != nil {
		return order.Order{}, err
	}
	_ = worker.Run(ctx)
	if o := table.Get(id); o.State != order.Done {
		return o, fmt.Errorf("the order has not ended with a withdrawal: %s", o.Reason)
	}
	return table.Get(id), nil
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
