package idempotency_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/lendingtest"
)

// TestKeyFindsWhatHappensDuringALook has a confirmation executed while the look at it waits
// for one of its reads: some of them show what was before, some what is after. It is found
// to have happened all the same, and no person is asked.
func TestKeyFindsWhatHappensDuringALook(t *testing.T) {
	const confirm = "POST /api/Loan/confirm-withdrawal-invoice/{loanId}"
	for _, read := range []string{"GET /api/Loan/get-withdrawals/{loanId}",
		"GET /api/Loan/get-transactions-paged/{loanId}", "GET /api/Loan/get-total-balance/{loanId}"} {
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
						lending.WithdrawInvoiceRequestData{DateUTC: time.Unix(0, 0),
							OTP: lending.NewSecret(service.OTP(loan.ID))})
					return err
				}

				service.Fail(confirm, lendingtest.Fault{Late: time.Second})
				require.ErrorIs(t, confirmed(), lending.ErrOutcomeUnknown)
				service.Fail(read, lendingtest.Fault{Delay: 2 * time.Second})
				err = confirmed()
				require.ErrorIs(t, err, idempotency.ErrAnswerLost, read)
				assert.Equal(t, lending.OutcomeDone, lending.OutcomeOf(err))
				assert.Equal(t, 1, service.Executed(confirm))
			})
		})
	}
}
