package guarantees_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
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

	inbox := webhook.NewMemoryInbox() // contrib/bolt and contrib/postgres have those that survive
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
