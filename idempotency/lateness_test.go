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

// TestReviewWaitsForMaxLateness has the answer to a processing lost before that has begun. What
// a look does not show then comes a moment later: a person is asked only when it had time
// to come.
func TestReviewWaitsForMaxLateness(t *testing.T) {
	const processRoute = "GET /api/Application/process-application/{applicationId}"
	for _, test := range []struct {
		name string
		late time.Duration
	}{{"executed late", time.Minute}, {"never executed", 0}} {
		t.Run(test.name, func(t *testing.T) {
			keyed(t, func(t *testing.T, service *lendingtest.Service, process func(...lending.Option) *lending.Client) {
				t.Helper()
				client := process()
				account := lendingtest.BankAccount{
					ID:           "1",
					Transactions: []lendingtest.BankTransaction{{Amount: "7500.00"}},
				}
				added := service.AddApplication(lendingtest.Application{Accounts: []lendingtest.BankAccount{account}})
				id, err := lending.ParseApplicationID(added.ID)
				require.NoError(t, err)
				call := func() error {
					offer, err := client.Applications.Process(lending.WithIdempotencyKey(t.Context(),
						"order-42/process"), id)
					if err == nil {
						assert.Equal(t, service.Snapshot().Applications[0].Offer.ID, offer.String())
					}
					return err
				}
				service.Fail(processRoute, lendingtest.Fault{Late: test.late, ResetBefore: test.late == 0})
				require.ErrorIs(t, call(), lending.ErrOutcomeUnknown)
				require.ErrorIs(t, call(), idempotency.ErrInDoubt)
				bubble.Elapse(2 * time.Minute)
				if test.late > 0 {
					require.NoError(t, call())
				} else {
					require.ErrorIs(t, call(), idempotency.ErrInDoubt)
				}
				bubble.Elapse(maxLateness)
				if test.late > 0 {
					require.NoError(t, call())
					assert.Equal(t, 1, service.Executed(processRoute))
				} else {
					require.ErrorIs(t, call(), idempotency.ErrNeedsReview)
					assert.Zero(t, service.Executed(processRoute))
				}
			})
		})
	}
}

// TestKeyLooksAgainAtAHalf has a batch executed between two reads of the look at it, which
// shows half of it.
func TestKeyLooksAgainAtAHalf(t *testing.T) {
	const createRoute, readRoute = "POST /api/ApplicationBulk/create-customers",
		"GET /api/Customer/get-customer-by-email"
	keyed(t, func(t *testing.T, service *lendingtest.Service, process func(...lending.Option) *lending.Client) {
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
			keyed(t, func(t *testing.T, service *lendingtest.Service, process func(...lending.Option) *lending.Client) {
				t.Helper()
				client, loan := process(), service.AddLoan(lendingtest.Loan{})
				id, err := lending.ParseLoanID(loan.ID)
				require.NoError(t, err)
				application, err := lending.ParseApplicationID(loan.ApplicationID)
				require.NoError(t, err)
				calculation := lending.CalculationRequest{Amount: "2500.00", Terms: 6}
				_, err = client.Calculation.Invoice(t.Context(), application, &calculation)
				require.NoError(t, err)
				withdrawal, err := client.Loans.WithdrawInvoice(t.Context(), id,
					lending.InvoiceWithdrawalRequest{Calculation: calculation})
				require.NoError(t, err)
				confirmed := func() error {
					_, err := client.Loans.ConfirmInvoiceWithdrawal(lending.WithIdempotencyKey(t.Context(),
						"order-42/confirm"), *withdrawal,
						lending.WithdrawInvoiceRequestData{
							DateUTC: time.Unix(0, 0),
							OTP:     lending.NewSecret(service.OTP(loan.ID)),
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
	keyed(t, func(t *testing.T, service *lendingtest.Service, process func(...lending.Option) *lending.Client) {
		o, client := newOrder(service), process()
		create := func(key string, opts ...keyOption) error {
			_, err := client.Applications.Create(withKey(t.Context(), key, opts...), o.request(), nil)
			return err
		}
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
