package guarantees_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/lendingtest"
)

func TestReadmeIdempotency(t *testing.T) {
	service := lendingtest.NewServer()
	defer service.Close()
	address, credentials, request := service.URL, fake.Credentials(service), fake.Newcomer()
	log := fake.Must(idempotency.NewLog(store.NewMemory(), nil))
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
