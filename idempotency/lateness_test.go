package idempotency_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/lendingtest"
)

// TestKeyLooksAgainAtAHalf has a batch executed between two reads of the look at it, which
// shows half of it.
func TestKeyLooksAgainAtAHalf(t *testing.T) {
	const createRoute, readRoute = "POST /api/ApplicationBulk/create-customers",
		"GET /api/Customer/get-customer-by-email"
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		t.Helper()
		client, batch := process(), []lending.UserRequest{fake.Newcomer(), fake.Newcomer()}
		call := func() error {
			_, err := client.Bulk.CreateCustomers(lending.WithIdempotencyKey(t.Context(), "import-42"), batch)
			return err
		}
		service.Fail(createRoute, lendingtest.Fault{Late: time.Second})
		require.ErrorIs(t, call(), lending.ErrOutcomeUnknown)
		service.Fail(readRoute, lendingtest.Fault{})
		service.Fail(readRoute, lendingtest.Fault{DelayBefore: 2 * time.Second})
		require.ErrorIs(t, call(), idempotency.ErrInDoubt)
		require.NoError(t, call())
		assert.Equal(t, 1, service.Executed(createRoute))
	})
}

// TestKeyFindsWhatHappensDuringACheck has a confirmation executed while the check of it waits
// for one of its reads: some of them show what was before, some what is after. It is found
// to have happened all the same, and no person is asked.
func TestKeyFindsWhatHappensDuringACheck(t *testing.T) {
	const confirm = "POST /api/Loan/confirm-withdrawal-invoice/{loanId}"
	for _, read := range []string{
		"GET /api/Loan/get-withdrawals/{loanId}",
		"GET /api/Loan/get-transactions-paged/{loanId}", "GET /api/Loan/get-total-balance/{loanId}",
	} {
		t.Run(read, func(t *testing.T) {
			keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
				o, client := newOrder(service), process()
				prepareOrder(t, client, &o)
				confirmed := func() error {
					_, err := client.Loans.ConfirmInvoiceWithdrawal(lending.WithIdempotencyKey(t.Context(), "the/key"), *o.withdrawal,
						lending.WithdrawInvoiceRequestData{
							DateUTC: time.Unix(0, 0), OTP: lending.NewSecret(service.OTP(o.loan.String())),
						})
					return err
				}
				service.Fail(confirm, lendingtest.Fault{Late: time.Second})
				require.ErrorIs(t, confirmed(), lending.ErrOutcomeUnknown)
				service.Fail(read, lendingtest.Fault{DelayBefore: 2 * time.Second})
				require.NoError(t, confirmed(), read)
				assert.Equal(t, 1, service.Executed(confirm))
			})
		})
	}
}

// TestSafeToRepeatKeepsTheLock sends a creation twice, the first of which is executed late:
// the next creation for the customer would take that application for its own.
func TestSafeToRepeatKeepsTheLock(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		o, client := newOrder(service), process()
		create := o.creates(t, client)
		service.Fail(createApplicationRoute, lendingtest.Fault{Late: time.Minute})
		require.ErrorIs(t, create("older", idempotency.SafeToRepeat), lending.ErrOutcomeUnknown)
		require.NoError(t, create("older", idempotency.SafeToRepeat))
		service.Fail(createApplicationRoute, lendingtest.Fault{ResetBefore: true})
		err := create("newer")
		require.ErrorIs(t, err, idempotency.ErrLocked)
		var refused *idempotency.Error
		require.ErrorAs(t, err, &refused)
		assert.Equal(t, maxLateness, refused.RetryAfter)
		bubble.Elapse(refused.RetryAfter)
		require.ErrorIs(t, create("newer"), lending.ErrOutcomeUnknown)
		require.ErrorIs(t, create("newer"), idempotency.ErrInDoubt)
		assert.Equal(t, 2, service.Executed(createApplicationRoute))
	})
}
