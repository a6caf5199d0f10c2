package guarantees_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/lendingtest"
)

// The gate released compiles and runs this file in a module outside this repository.

func customer() lending.UserRequest {
	return lending.UserRequest{
		FirstName: "Ada", LastName: "Lovelace", Email: "ada@example.com",
		Password: lending.NewSecret("A-hush-Pass-1"), MobileNumber: "(415) 555-0100",
	}
}

func credentials(service *lendingtest.Server) lending.Credentials {
	return lending.Credentials{
		Username: lendingtest.Username, Password: lending.NewSecret(lendingtest.Password),
		TwoFactor: func(context.Context, lending.Challenge) (string, error) {
			return service.TwoFactorCode(lendingtest.Username), nil
		},
	}
}

func TestReadmeProgram(t *testing.T) {
	ctx := t.Context()
	service := lendingtest.NewServer()
	defer service.Close()
	address, credentials, request := service.URL, credentials(service), customer()
	program := func() error {
		client, err := lending.New(address, lending.WithCredentials(credentials))
		if err != nil {
			return err
		}
		defer client.Close()

		customer, err := client.Applications.CreateCustomer(ctx, request)
		if err != nil {
			return fmt.Errorf("create customer, %s: %w", lending.OutcomeOf(err), err)
		}
		fmt.Println("created customer", customer.ID)
		return nil
	}
	require.NoError(t, program())
	require.ErrorContains(t, program(), "create customer, rejected: ")
}

func TestReadmeLostResponse(t *testing.T) {
	service := lendingtest.NewServer()
	defer service.Close()
	token := lending.StaticToken(service.Token(lendingtest.Username))
	client, err := lending.New(service.URL, lending.WithTokenSource(token))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()

	service.Fail("POST /api/Application/create-customer", lendingtest.Fault{ResetAfter: true}) // its response is lost

	_, err = client.Applications.CreateCustomer(t.Context(), customer())
	assert.Equal(t, lending.OutcomeUnknown, lending.OutcomeOf(err))
	assert.Equal(t, 1, service.Executed("POST /api/Application/create-customer"))
}

func TestReadmeIdempotency(t *testing.T) {
	service := lendingtest.NewServer()
	defer service.Close()
	address, credentials, request := service.URL, credentials(service), customer()
	log, err := idempotency.NewLog(store.NewMemory(), nil)
	require.NoError(t, err)
	for range 2 {
		ctx := t.Context()
		client, err := lending.New(address, lending.WithCredentials(credentials), lending.WithIdempotency(log))
		require.NoError(t, err)

		ctx = lending.WithIdempotencyKey(ctx, "order-42/create-customer") // the caller's own name for this one mutation
		customer, err := client.Applications.CreateCustomer(ctx, request)
		require.NoError(t, err)
		assert.Equal(t, service.Snapshot().Customers[0].ID, customer.ID.String())
		client.Close()
	}
	assert.Equal(t, 1, service.Executed("POST /api/Application/create-customer"))
}
