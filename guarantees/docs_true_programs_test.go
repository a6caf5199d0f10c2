package guarantees_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/delivery"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/webhook"
)

func TestWebhooksInDocuments(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	http := http.NewServeMux()
	secret, acted := lending.NewSecret(delivery.Secret), make(chan lending.EventName)
	handle := func(_ context.Context, event *webhook.Event) error {
		acted <- event.Name
		return nil
	}

	inbox := webhook.NewMemoryInbox() // contrib/bolt, contrib/redis and contrib/postgres have those that survive
	receiver, err := webhook.NewReceiver(webhook.SignedWith(secret), inbox.Put, nil)
	require.NoError(t, err)
	http.Handle("/webhooks", receiver)
	go webhook.Work(ctx, inbox, handle, nil)

	assert.Equal(t, 204, delivery.Post(http, delivery.Body))
	assert.Equal(t, lending.EventApplicationCreated, <-acted)
}

func TestDocumentationProgram(t *testing.T) {
	ctx := t.Context()
	service := lendingtest.NewServer()
	defer service.Close()
	application, err := lending.ParseApplicationID(service.AddApplication(lendingtest.Application{}).ID)
	require.NoError(t, err)
	address, username, password := service.URL, lendingtest.Username, lendingtest.Password
	askForCode := fake.Credentials(service).TwoFactor
	err = func() error {
		client, err := lending.New(address, lending.WithCredentials(lending.Credentials{
			Username:  username,
			Password:  lending.NewSecret(password),
			TwoFactor: askForCode,
		}))
		if err != nil {
			return err
		}
		defer client.Close()

		status, err := client.Applications.Status(ctx, application)
		if err != nil {
			return err
		}
		fmt.Println("the application is", status)
		return nil
	}()
	require.NoError(t, err)
}

// order is a row of a backend's own table.
type order struct {
	ID, BusinessName, Zip string
	Customer              lending.UserRequest
}

// step takes an order from nothing to an application. Each try starts at the top.
func step(ctx context.Context, client *lending.Client, o order) error {
	key := func(name string) context.Context {
		return lending.WithIdempotencyKey(ctx, "order-"+o.ID+"/"+name)
	}
	customer, err := client.Applications.CreateCustomer(key("customer"), o.Customer)
	if err != nil {
		return fmt.Errorf("customer: %w", err)
	}
	_, err = client.Applications.Create(key("application"), lending.ApplicationRequest{
		CustomerID:   customer.ID,
		BusinessName: o.BusinessName,
		BusinessZip:  o.Zip,
	}, nil)
	return err
}

// TestAgentsPage runs the code of AGENTS.md.
func TestAgentsPage(t *testing.T) {
	t.Parallel()
	service := lendingtest.NewServer()
	defer service.Close()
	service.Fail("POST /api/Application/create-customer", lendingtest.Fault{ResetAfter: true}) // executed, response lost

	log := fake.Must(idempotency.NewLog(store.NewMemory(), &idempotency.Options{MaxLateness: time.Millisecond}))
	client, err := lending.New(service.URL,
		lending.WithCredentials(fake.Credentials(service)), lending.WithIdempotency(log))
	require.NoError(t, err)
	defer client.Close()
	ctx, o := t.Context(), order{ID: "42", BusinessName: "Engines", Zip: "94103", Customer: fake.Newcomer()}
	alert := func(err error) { t.Error(err) }
	loop := func() error {
		for {
			err := step(ctx, client, o)
			if err == nil {
				return nil
			}
			next := lending.NextOf(err)
			if next.Person {
				alert(err)
			}
			if !next.Retry {
				return err
			}
			select {
			case <-time.After(max(next.After, time.Second)):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	require.NoError(t, loop())
	assert.Equal(t, 1, service.Executed("POST /api/Application/create-customer"))
}
