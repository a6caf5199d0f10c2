package guarantees_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/delivery"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/webhook"
)

// create creates a customer, or finds the one that a call without an answer created.
func create(ctx context.Context, client *lending.Client, customer lending.UserRequest) (*lending.UserResponse, error) {
	created, err := client.Applications.CreateCustomer(ctx, customer)
	if outcome := lending.OutcomeOf(err); err == nil || outcome == lending.OutcomeNotSent ||
		outcome == lending.OutcomeRejected {
		return created, err
	}
	record, failed := client.Customers.GetByEmail(ctx, customer.Email) // which the error names
	if failed == nil {
		failed = record.Decode(&created) // it is there: do not create it again
	}
	if failed == nil && created.ID.IsZero() {
		failed = errors.New("the customer has no id") // the shape of this answer is not published
	}
	if failed != nil {
		// not known yet, or lending.IsNotFound(failed): it is not there, or not yet
		return nil, errors.Join(err, failed)
	}
	return created, nil
}

func TestReadmeUnknownOutcome(t *testing.T) {
	service := lendingtest.NewServer()
	defer service.Close()
	token := lending.StaticToken(service.Token(lendingtest.Username))
	client, err := lending.New(service.URL, lending.WithTokenSource(token))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()

	service.Fail("POST /api/Application/create-customer", lendingtest.Fault{ResetAfter: true}) // its answer is lost

	const route = "POST /api/Application/create-customer"
	for i, next := range []lendingtest.Fault{{CutBody: -1}, {ResetBefore: true}} { // in this order
		customer := fake.Ada()
		customer.Email = fmt.Sprintf("ada%d@example.com", i)
		created, err := create(t.Context(), client, customer)
		require.NoError(t, err)
		assert.False(t, created.ID.IsZero())
		assert.Equal(t, i+1, service.Executed(route))
		service.Fail(route, next)
	}
	_, err = create(t.Context(), client, fake.Ada())
	require.ErrorIs(t, err, lending.ErrNoContent)
	assert.False(t, lending.IsNotFound(err), "it is the error of a command, too")
	require.ErrorIs(t, err, lending.ErrMayHaveHappened)
	assert.Equal(t, lending.OutcomeUnknown, lending.OutcomeOf(err), "that of the command, not that of the read")
	assert.Equal(t, 2, service.Executed(route), "what is not there may come yet")
	service.Fail(route, lendingtest.Fault{CutBody: -1})
	service.Fail("GET /api/Customer/get-customer-by-email", lendingtest.Fault{
		Status: http.StatusOK,
		Body:   []byte(`{"customerId":"x"}`),
	})
	_, err = create(t.Context(), client, fake.Ada())
	require.ErrorContains(t, err, "the customer has no id")
	service.Fail(route, lendingtest.Fault{Status: http.StatusConflict})
	_, err = create(t.Context(), client, fake.Ada())
	assert.Equal(t, lending.OutcomeRejected, lending.OutcomeOf(err))
}

func TestReadmeTokenStore(t *testing.T) {
	service := lendingtest.NewServer()
	defer service.Close()
	baseURL, credentials, path := service.URL, fake.Credentials(service), filepath.Join(t.TempDir(), "token")
	for range 2 {
		store, err := lending.NewFileTokenStore(path)
		require.NoError(t, err)
		client, err := lending.New(baseURL, lending.WithCredentials(credentials), lending.WithTokenStore(store))
		require.NoError(t, err)
		require.NoError(t, client.Session().SignIn(t.Context()))
		require.NoError(t, client.Close())
	}
	assert.Equal(t, 1, service.Executed("POST /api/Authenication/login"))
}

func TestReadmeWebhooks(t *testing.T) {
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
