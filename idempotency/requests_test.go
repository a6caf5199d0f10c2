package idempotency_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/lendingtest"
)

func customerData(change func(*lending.CustomerData)) lending.CustomerData {
	data := lending.CustomerData{
		FirstName: "Ada", LastName: "Lovelace", Address: "1 Main St", State: "CA", City: "San Francisco",
		SSN: lending.NewSecret("123-45-6789"), Mobile: "4155550100", DateOfBirth: catalog.Born,
	}
	if change != nil {
		change(&data)
	}
	return data
}

// TestKeyIsForOneRecord uses a key for the same route with another path argument or parameter.
func TestKeyIsForOneRecord(t *testing.T) {
	for _, test := range []struct {
		name  string
		call  func(context.Context, *lending.Client, order) error
		other func(context.Context, *lending.Client, order) error
	}{
		{
			"another application",
			func(ctx context.Context, c *lending.Client, o order) error {
				return c.Applications.Cancel(ctx, o.application)
			},
			func(ctx context.Context, c *lending.Client, o order) error {
				return c.Applications.Cancel(ctx, o.offered)
			},
		},
		{
			"another value in the query",
			func(ctx context.Context, c *lending.Client, o order) error {
				_, err := c.Applications.UpdateCustomerData(ctx, o.application, customerData(nil))
				return err
			},
			func(ctx context.Context, c *lending.Client, o order) error {
				data := customerData(func(d *lending.CustomerData) { d.City = "Oakland" })
				_, err := c.Applications.UpdateCustomerData(ctx, o.application, data)
				return err
			},
		},
		{
			"two values of the query exchanged",
			func(ctx context.Context, c *lending.Client, o order) error {
				_, err := c.Applications.UpdateCustomerData(ctx, o.application, customerData(nil))
				return err
			},
			func(ctx context.Context, c *lending.Client, o order) error {
				data := customerData(func(d *lending.CustomerData) {
					d.FirstName, d.LastName = d.LastName,
						d.FirstName
				})
				_, err := c.Applications.UpdateCustomerData(ctx, o.application, data)
				return err
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
				o, ctx := newOrder(service), lending.WithIdempotencyKey(t.Context(), "the/key")
				require.NoError(t, test.call(ctx, process(), o))
				arrived := len(service.Requests())
				require.ErrorIs(t, test.other(ctx, process(), o), idempotency.ErrKeyReused)
				assert.Len(t, service.Requests(), arrived)
				require.NoError(t, test.call(ctx, process(), o))
			})
		})
	}
}

// TestSecretsDoNotTellRequestsApart has the secret of a request change between two calls with a
// key: it stands in the query, in the body, or is a one-time password.
func TestSecretsDoNotTellRequestsApart(t *testing.T) {
	for _, test := range []struct {
		name string
		call func(ctx context.Context, c *lending.Client, o order, secret string) error
	}{
		{"in the query", func(ctx context.Context, c *lending.Client, o order, secret string) error {
			data := customerData(func(d *lending.CustomerData) { d.SSN = lending.NewSecret("123-45-678" + secret) })
			_, err := c.Applications.UpdateCustomerData(ctx, o.application, data)
			return err
		}},
		{"in the body", func(ctx context.Context, c *lending.Client, _ order, secret string) error {
			user := fake.Ada()
			user.Password = lending.NewSecret("A-hush-Pass-" + secret)
			_, err := c.Applications.CreateCustomer(ctx, user)
			return err
		}},
		{"in Extra", func(ctx context.Context, c *lending.Client, _ order, secret string) error {
			user := fake.Ada()
			user.Extra = catalog.Unpublished{"pin": lending.NewSecret(secret)}
			_, err := c.Applications.CreateCustomer(ctx, user)
			return err
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
				o, client := newOrder(service), process()
				ctx := lending.WithIdempotencyKey(t.Context(), "the/key")
				require.NoError(t, test.call(ctx, client, o, "1"))
				arrived := len(service.Requests())
				require.NoError(t, test.call(ctx, client, o, "2"))
				assert.Len(t, service.Requests(), arrived, "the recorded answer was returned")
			})
		})
	}
}

// TestKeyedCallEndsInTime gives a keyed call a deadline of an hour: it ends after two minutes,
// and no other process waits longer.
func TestKeyedCallEndsInTime(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		const sendLink = "POST /api/Application/send-application-link"
		o, client, other := newOrder(service), process(), process()
		require.NoError(t, client.Session().SignIn(t.Context()))
		send := func(client *lending.Client) error {
			ctx, stop := context.WithTimeout(lending.WithIdempotencyKey(t.Context(), "the/key"), time.Hour)
			defer stop()
			return client.Applications.SendLink(ctx, o.application)
		}
		held, ended := make(chan struct{}), make(chan time.Duration)
		service.Fail(sendLink, lendingtest.Fault{Reached: func() { close(held) }, DelayBefore: time.Hour})
		go func() {
			start := time.Now()
			assert.ErrorIs(t, send(client), lending.ErrOutcomeUnknown)
			ended <- time.Since(start)
		}()
		<-held
		var refused *idempotency.Error
		require.ErrorAs(t, send(other), &refused)
		require.ErrorIs(t, refused, idempotency.ErrInProgress)
		assert.Equal(t, 2*time.Minute, refused.RetryAfter)
		assert.Equal(t, 2*time.Minute, <-ended)
	})
}

// The entry has who decided and why, and the answer of the person, also if it is larger than
// MaxAnswer: a verdict without an effect would help nobody.
func TestResolutionIsKept(t *testing.T) {
	opts := &idempotency.Options{MaxAnswer: 37}
	withStore(t, opts, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		o, log := newOrder(service), fake.Must(idempotency.NewLog(entries, opts))
		service.Fail("POST /api/Loan/resend-withdrawal-otp/{loanId}", lendingtest.Fault{ResetAfter: true})
		resend := func() error {
			_, err := client.Loans.ResendWithdrawalOTP(lending.WithIdempotencyKey(t.Context(), "the/key"), o.loan)
			return err
		}
		require.ErrorIs(t, resend(), lending.ErrOutcomeUnknown)
		require.ErrorIs(t, resend(), idempotency.ErrNeedsReview)
		require.NoError(t, log.Resolve(t.Context(), "the/key", idempotency.Resolution{
			By: "Grace", Why: "asked the customer", Verdict: idempotency.Happened(o.application), // 38 bytes
		}))
		entry := fake.Must(entries.Load(t.Context(), ":the/key"))
		assert.Contains(t, string(entry.Data), "Grace")
		assert.Contains(t, string(entry.Data), "asked the customer")
		require.NoError(t, resend())
	})
}

// TestAnswerIsLeftWhereOneReadFails has the read that finds the id of a new application fail:
// the next call finds it.
func TestAnswerIsLeftWhereOneReadFails(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		o, client := newOrder(service), process()
		create := o.createsID(t, client)
		service.Fail(createApplicationRoute, lendingtest.Fault{ResetAfter: true})
		_, err := create("the/key")
		require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
		refuse := lendingtest.Fault{Status: http.StatusForbidden, Times: -1}
		service.Fail("GET /api/Application/get-application/{applicationId}", refuse)
		_, err = create("the/key")
		require.ErrorIs(t, err, idempotency.ErrInDoubt)
		require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
		service.ClearFaults()
		id, err := create("the/key")
		require.NoError(t, err)
		assert.Equal(t, service.Snapshot().Applications[3].ID, id.String())
		assert.Equal(t, 1, service.Executed(createApplicationRoute))
	})
}

// TestReplayNeedsNoSecret calls again without the one-time password, which the customer would be
// asked for after he has been paid: the recorded answer comes. Where there is none the password is
// missing, and nothing is written down or sent.
func TestReplayNeedsNoSecret(t *testing.T) {
	const confirmRoute = "POST /api/Loan/confirm-withdrawal-invoice/{loanId}"
	for _, test := range []struct {
		name  string
		fault *lendingtest.Fault // of the call before, with the password; nil for none
	}{
		{"confirmed", &lendingtest.Fault{}},
		{"confirmed, answer lost", &lendingtest.Fault{ResetAfter: true}},
		{"never sent", nil},
		{"lost", &lendingtest.Fault{ResetBefore: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
				o := newOrder(service)
				prepareOrder(t, client, &o)
				confirm := func(password lending.Secret) error {
					_, err := client.Loans.ConfirmInvoiceWithdrawal(lending.WithIdempotencyKey(t.Context(), "the/key"),
						*o.withdrawal, lending.WithdrawInvoiceRequestData{DateUTC: catalog.Date, OTP: password})
					return err
				}
				if test.fault != nil {
					service.Fail(confirmRoute, *test.fault)
					if err := confirm(lending.NewSecret(service.OTP(o.loan.String()))); err != nil {
						require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
					}
				}
				before, executed := fake.Must(entries.Load(t.Context(), ":the/key")), service.Executed(confirmRoute)
				switch err := confirm(lending.Secret{}); test.name {
				case "confirmed", "confirmed, answer lost":
					require.NoError(t, err)
				case "never sent":
					require.ErrorAs(t, err, new(*lending.ArgumentError))
					require.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
					require.ErrorContains(t, err, "otp")
				default:
					require.ErrorIs(t, err, idempotency.ErrInDoubt)
					bubble.Elapse(maxLateness)
					err = confirm(lending.Secret{})
					require.ErrorContains(t, err, "otp")
					require.Equal(t, lending.OutcomeUnknown, lending.OutcomeOf(err))
				}
				assert.Equal(t, executed, service.Executed(confirmRoute))
				if test.fault == nil {
					assert.Nil(t, before)
					assert.Nil(t, fake.Must(entries.Load(t.Context(), ":the/key")), "nothing was written down")
				}
				_, err := client.Loans.ConfirmInvoiceWithdrawal(t.Context(), *o.withdrawal,
					lending.WithdrawInvoiceRequestData{DateUTC: catalog.Date})
				require.ErrorAs(t, err, new(*lending.ArgumentError), "without a key")
			})
		})
	}
}
