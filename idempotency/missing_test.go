package idempotency_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/lendingtest"
)

// TestChecksBelieveAnEmpty404 only as measured, or beside another read of the check that found its record.
func TestChecksBelieveAnEmpty404(t *testing.T) {
	const create = "POST /api/Application/create-customer"
	const process = "GET /api/Application/process-application/{applicationId}"
	for _, test := range []struct {
		name, route string
		missing     string // the read that the program has measured
		call        func(context.Context, order, *lending.Client) error
		want        string
		outcome     lending.Outcome
	}{
		{"e-mail address", create, "", func(ctx context.Context, _ order, c *lending.Client) error {
			_, err := c.Applications.CreateCustomer(ctx, fake.Ada())
			return err
		}, `set lending.WithMissing("Customers.GetByEmail", 404)`, lending.OutcomeNotSent},
		{"measured address", create, "Customers.GetByEmail", func(ctx context.Context, _ order, c *lending.Client) error {
			_, err := c.Applications.CreateCustomer(ctx, fake.Ada())
			return err
		}, "", lending.OutcomeDone},
		{"offer beside the status", process, "", func(ctx context.Context, o order, c *lending.Client) error {
			_, err := c.Applications.Process(ctx, o.application)
			return err
		}, "InsufficientBankingData: ", lending.OutcomeRejected},
		{"offer of an unknown application", process, "", func(ctx context.Context, _ order, c *lending.Client) error {
			_, err := c.Applications.Process(ctx, lending.ApplicationID{1})
			return err
		}, `set lending.WithMissing("Applications.Status", 404)`, lending.OutcomeNotSent},
		{"offer, no status", process, "Applications.Status", func(ctx context.Context, _ order, c *lending.Client) error {
			_, err := c.Applications.Process(ctx, lending.ApplicationID{1})
			return err
		}, `set lending.WithMissing("Applications.Offer", 404)`, lending.OutcomeNotSent},
	} {
		t.Run(test.name, func(t *testing.T) {
			keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
				service.Assume("absence", "404 empty")
				var opts []lending.Option
				if test.missing != "" {
					opts = append(opts, lending.WithMissing(test.missing, 404))
				}
				o, client := newOrder(service), process(opts...)
				ctx := lending.WithIdempotencyKey(t.Context(), "the/key")
				for range 2 {
					err := test.call(ctx, o, client)
					assert.Equal(t, test.outcome, lending.OutcomeOf(err))
					if test.want != "" {
						require.ErrorContains(t, err, test.want)
					}
				}
				assert.Equal(t, test.outcome == lending.OutcomeDone, service.Executed(test.route) == 1)
			})
		})
	}
}
