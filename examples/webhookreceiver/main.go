// Webhookreceiver subscribes to the service's events and receives good, repeated and forged
// deliveries.
//
// The program needs only Go, because it contains the service. With -listen it is a receiver for
// a real service, behind an https proxy:
//
//	LENDING_WEBHOOK_SECRET=… go run ./examples/webhookreceiver -listen 127.0.0.1:8080
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/webhook"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "webhookreceiver:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("webhookreceiver", flag.ContinueOnError)
	flags.SetOutput(stderr)
	listen := flags.String("listen", "", "address to listen on for a real service; without -listen the program runs a demonstration")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	if *listen != "" {
		return serve(ctx, *listen, os.Getenv("LENDING_WEBHOOK_SECRET"), stderr)
	}
	return demonstrate(ctx, stdout)
}

// receiver returns the handler for webhooks. A larger program puts the events into an inbox, which
// skips repeated deliveries: see webhook.Inbox.
func receiver(secrets webhook.SecretsFunc, out io.Writer, observe func(webhook.Delivery)) (http.Handler, error) {
	var known applications
	events := webhook.EventFuncs{
		lending.EventLoanCreated: func(_ context.Context, event *webhook.Event) error {
			var data struct{ Simulated bool } // the only field that this program needs
			if err := event.Data.Decode(&data); err != nil {
				return err
			}
			_, err := fmt.Fprintf(out, "  handling %s, simulated: %t\n", event.Name, data.Simulated)
			return err
		},
		lending.EventApplicationCreated: func(_ context.Context, event *webhook.Event) error {
			var created webhook.ApplicationCreated
			if err := event.Data.Decode(&created); err != nil {
				return err
			}
			if known.has(event) {
				return webhook.ErrDuplicate
			}
			_, err := fmt.Fprintf(out, "  handling %s, years in business: %s\n", event.Name, created.ExtraInformation.Years)
			return err
		},
	}
	ignore := func(context.Context, *webhook.Event) error { return nil }
	return webhook.NewReceiver(secrets, events.Or(ignore), &webhook.ReceiverOptions{Observe: observe})
}

// applications are the created applications. A larger program keeps them in its database, with a
// unique constraint.
type applications struct{ known sync.Map }

// has reports whether an event's application was known, and adds the application. The service sends
// an event again with a new time and a new signature. The field name is the name of the embedded
// service, because the real name is not published.
func (a *applications) has(event *webhook.Event) bool {
	var data struct{ ApplicationID string }
	if event.Data.Decode(&data) != nil || data.ApplicationID == "" {
		return false
	}
	_, known := a.known.LoadOrStore(data.ApplicationID, true)
	return known
}

// serve receives deliveries of a real service until ctx ends.
func serve(ctx context.Context, address, secret string, log io.Writer) error {
	if secret == "" {
		return errors.New("LENDING_WEBHOOK_SECRET is not set; set it to the secret that Webhooks.Ensure returns")
	}
	logger := slog.New(slog.NewTextHandler(log, nil))
	handler, err := receiver(webhook.SignedWith(lending.NewSecret(secret)), log, func(d webhook.Delivery) {
		logger.InfoContext(ctx, "delivery", "delivery", d)
	})
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/webhooks", handler)
	server := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	context.AfterFunc(ctx, func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 40*time.Second) // lets calls in progress finish
		defer cancel()
		_ = server.Shutdown(ending)
	})
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// demonstration is a service and a receiver in this program.
type demonstration struct {
	out      io.Writer
	partner  lending.WebhookTarget
	receiver *httptest.Server
	service  *lendingtest.Server
	client   *lending.Client
	secret   atomic.Pointer[lending.Secret] // set after the subscription, which needs the receiver's address
}

func demonstrate(ctx context.Context, out io.Writer) error {
	partner, err := lending.ParsePartnerID(lendingtest.PartnerID)
	if err != nil {
		return err
	}
	d := &demonstration{out: out, partner: lending.ForPartner(partner)}
	d.secret.Store(&lending.Secret{})
	handler, err := receiver(func(*http.Request) ([]lending.Secret, error) {
		return []lending.Secret{*d.secret.Load()}, nil
	}, out, func(delivery webhook.Delivery) {
		if delivery.Err != nil {
			fmt.Fprintf(out, "  answered %d: %v\n", delivery.Status, delivery.Err)
		} else {
			fmt.Fprintf(out, "  answered %d\n", delivery.Status)
		}
	})
	if err != nil {
		return err
	}
	d.receiver = httptest.NewTLSServer(handler)
	defer d.receiver.Close()
	d.service = lendingtest.NewServer(lendingtest.WithDeliveryClient(d.receiver.Client()))
	defer d.service.Close()
	if d.client, err = lending.New(d.service.URL, lending.WithCredentials(lending.Credentials{
		Username:           lendingtest.Username,
		Password:           lending.NewSecret(lendingtest.Password),
		TrustedDeviceToken: lending.NewSecret(lendingtest.TrustedDeviceToken),
	})); err != nil {
		return err
	}
	defer d.client.Close()

	fmt.Fprintln(out, "The service and the receiver run inside this program. Nothing leaves this machine.")
	if err := d.subscribe(ctx); err != nil {
		return err
	}
	if err := d.deliver(ctx); err != nil {
		return err
	}
	if err := d.redeliver(ctx); err != nil {
		return err
	}
	return d.tamper(ctx)
}

// subscribe subscribes twice, like a program that does so at every start.
func (d *demonstration) subscribe(ctx context.Context) error {
	for range 2 {
		ensured, err := d.client.Webhooks.Ensure(ctx, d.partner, lending.WebhookSubscription{WebhookURI: d.receiver.URL})
		if err != nil {
			return err
		}
		d.secret.Store(&ensured.Subscription.Secret)
		fmt.Fprintf(d.out, "Subscribed to all events. Changed the subscription: %t\n", ensured.Changed())
	}
	return nil
}

func (d *demonstration) deliver(ctx context.Context) error {
	for _, step := range []struct {
		says string
		mode lendingtest.DeliveryMode
		do   func(context.Context) error
	}{
		{"The service creates a loan and delivers the event.", lendingtest.DeliveryMode{}, d.simulate},
		{"A customer applies. The service delivers two events, each twice.", lendingtest.DeliveryMode{Copies: 1}, d.apply},
		{"An attacker signs an event with another secret.", lendingtest.DeliveryMode{BadSignature: true}, d.simulate},
		{"An attacker sends an event without a signature.", lendingtest.DeliveryMode{NoSignature: true}, d.simulate},
	} {
		fmt.Fprintln(d.out, step.says)
		d.service.SetDeliveryMode(step.mode)
		if err := step.do(ctx); err != nil {
			return err
		}
		if err := d.service.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (d *demonstration) simulate(ctx context.Context) error {
	return d.client.Webhooks.Simulate(ctx, d.partner, lending.EventLoanCreated)
}

func (d *demonstration) apply(ctx context.Context) error {
	customer, err := d.client.Applications.CreateCustomer(ctx, lending.UserRequest{
		FirstName: "Ada", LastName: "Lovelace", Email: "ada@example.com", MobileNumber: "(415) 555-0100",
		Password: lending.NewSecret("Analytical-Engine-1"),
	})
	if err != nil {
		return err
	}
	_, err = d.client.Applications.Create(ctx, lending.ApplicationRequest{
		CustomerID: customer.ID, BusinessName: "Lovelace Analytics", BusinessZip: "94105",
		ExtraInformation: map[string]string{"years": "7"},
	}, nil)
	return err
}

// redeliver makes the service send an event again. The real service does so if it has not
// received the response.
func (d *demonstration) redeliver(ctx context.Context) error {
	fmt.Fprintln(d.out, "The service sends an event again, with a new time and a new signature.")
	d.service.SetDeliveryMode(lendingtest.DeliveryMode{})
	for _, delivery := range d.service.Deliveries() {
		if delivery.Event == string(lending.EventApplicationCreated) {
			d.service.Redeliver(delivery)
			break
		}
	}
	return d.service.Wait(ctx)
}

// tamper posts a genuine delivery with its own signature and another body.
func (d *demonstration) tamper(ctx context.Context) error {
	fmt.Fprintln(d.out, "An attacker changes a genuine delivery.")
	genuine := d.service.Deliveries()[0]
	changed := strings.Replace(string(genuine.Body), `"simulated":true`, `"simulated":false`, 1)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, genuine.URI, strings.NewReader(changed))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set(webhook.SignatureHeader, genuine.Signature)
	response, err := d.receiver.Client().Do(request)
	if err != nil {
		return err
	}
	return response.Body.Close()
}
