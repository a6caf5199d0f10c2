package guarantees_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/lendingtest"
)

// order is a row of a backend's own table.
type order struct {
	ID, BusinessName, Zip string
	Customer              lending.UserRequest
}

// step takes an order from nothing to an application. It starts at the top in each try.
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
