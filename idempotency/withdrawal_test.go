package idempotency_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/onboarding"
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/lendingtest"
)

// TestWithdrawalIsConfirmedOnceBesideALateStart starts a withdrawal with a fault, also one that runs late
// at each moment of the confirmation: the confirmation waits for no lock, and the money moves once.
func TestWithdrawalIsConfirmedOnceBesideALateStart(t *testing.T) {
	executed := lendingtest.Fault{Status: http.StatusInternalServerError, Executes: true}
	faults := []lendingtest.Fault{
		{}, {ResetBefore: true}, {ResetAfter: true}, {CutBody: -1}, executed, {Late: time.Minute},
	}
	starts := faults[1:5:5]
	for _, seconds := range []int{1, 15, 21, 50, 240} { // before the password is read, and later
		starts = append(starts, lendingtest.Fault{Late: time.Duration(seconds) * time.Second})
	}
	for i, start := range starts {
		for j, confirmation := range faults {
			inWithdrawal(t, fmt.Sprint(i, "/", j), repeating(idempotency.WithdrawInvoice), func(w withdrawal) {
				w.service.Fail(onboarding.Withdraw, start)
				w.service.Fail(onboarding.Confirm, lendingtest.Fault{DelayBefore: 3 * time.Second})
				w.service.Fail(onboarding.Confirm, confirmation)
				began, passwords := time.Now(), w.confirm()
				isReplaced := start.Late > 2*time.Second && start.Late < 30*time.Second
				if j == 0 && !isReplaced {
					assert.Zero(w, passwords, "the first password still counts")
					assert.Less(w, time.Since(began), time.Minute)
				}
				bubble.Elapse(maxLateness)
				require.NoError(w, w.service.Wait(w.Context()))
				loan := w.service.Snapshot().Loans[0]
				assert.Len(w, loan.Withdrawals, 1)
				assert.Equal(w, loan.Withdrawals[0].Amount, loan.Balance)
				assert.Equal(w, 1, w.service.Executed(onboarding.Confirm))
			})
		}
	}
}

// TestLateLineOfCreditKeepsTheLock has a withdrawal of a line of credit that can run late, and may
// become a withdrawal without a confirmation.
func TestLateLineOfCreditKeepsTheLock(t *testing.T) {
	inWithdrawal(t, "line", repeating(idempotency.WithdrawLineOfCredit), func(w withdrawal) {
		w.service.Fail("POST /api/Loan/make-withdrawal-line-of-credit/{loanId}", lendingtest.Fault{ResetBefore: true})
		require.NoError(w, w.until(func() error {
			_, err := w.client.Loans.WithdrawLineOfCredit(withKey(w.Context(), "line"), w.loan,
				lending.LineOfCreditWithdrawalRequest{})
			return err
		}))
		started := fake.Must(w.start(w.Context()))
		_, err := w.client.Loans.ConfirmInvoiceWithdrawal(withKey(w.Context(), "confirm"), *started,
			lending.WithdrawInvoiceRequestData{DateUTC: time.Unix(0, 0), OTP: lending.NewSecret("123456")})
		require.ErrorIs(w, err, idempotency.ErrLocked)
	})
}

// TestWithdrawalListedFromItsStart has a service that lists a withdrawal from its start, and executes a lost start
// late, before or after the confirmation. No confirmation is reported that did not happen, and none happens twice.
func TestWithdrawalListedFromItsStart(t *testing.T) {
	confirmations := []lendingtest.Fault{
		{}, {ResetBefore: true}, {ResetAfter: true}, {CutBody: -1}, {Late: 20 * time.Second},
	}
	for i := range 30 {
		for j, confirmation := range confirmations {
			inWithdrawal(t, fmt.Sprint(i, "/", j), listedFromItsStart(), func(w withdrawal) {
				w.service.Assume("withdrawal listed", "from its start")
				w.service.Fail(onboarding.Withdraw, lendingtest.Fault{Late: time.Duration(5+10*i) * time.Second})
				w.service.Fail(onboarding.Confirm, confirmation)
				w.service.Fail(onboarding.Confirm, lendingtest.Fault{ResetAfter: true}) // perhaps of the late start
				w.confirm()
				assert.Equal(w, 1, w.service.Executed(onboarding.Confirm), "reported")
				bubble.Elapse(maxLateness)
				require.NoError(w, w.service.Wait(w.Context()))
				loan := w.service.Snapshot().Loans[0]
				assert.Equal(w, 1, w.service.Executed(onboarding.Confirm))
				assert.EqualValues(w, 2500_00, loan.Balance)
			})
		}
	}
}

// TestOthersCountConfirmedWithdrawals has a confirmation lost at such a service, and a check without the call or a
// person end the doubt.
func TestOthersCountConfirmedWithdrawals(t *testing.T) {
	for name, end := range map[string]func(context.Context, *idempotency.Log, *lending.Client) error{
		"check": func(ctx context.Context, log *idempotency.Log, client *lending.Client) error {
			_, err := log.Check(ctx, client)
			return err
		},
		"verdict": func(ctx context.Context, log *idempotency.Log, _ *lending.Client) error {
			return log.Resolve(ctx, "confirm", says(idempotency.NotHappened()))
		},
	} {
		inWithdrawal(t, name, listedFromItsStart(), func(w withdrawal) {
			w.service.Assume("withdrawal listed", "from its start")
			w.service.Fail(onboarding.Confirm, lendingtest.Fault{ResetBefore: true})
			started := fake.Must(w.start(withKey(w.Context(), "withdraw")))
			_, err := w.client.Loans.ConfirmInvoiceWithdrawal(withKey(w.Context(), "confirm"), *started,
				lending.WithdrawInvoiceRequestData{DateUTC: time.Unix(0, 0), OTP: lending.NewSecret("123456")})
			require.ErrorIs(w, err, lending.ErrOutcomeUnknown)
			bubble.Elapse(maxLateness)
			require.NoError(w, end(w.Context(), w.log, w.client))
			assert.Equal(w, store.Free, fake.Must(w.log.Lookup(w.Context(), "confirm")).State)
		})
	}
}

// TestPanicInACheckEndsNoProcess has IsConfirmed panic in [idempotency.Log.Check], which goes on with the other keys.
func TestPanicInACheckEndsNoProcess(t *testing.T) {
	opts := listedFromItsStart()
	opts.IsConfirmed = func(lending.AdvanceProjection) bool { panic("a mistake of the program") }
	inWithdrawal(t, "", opts, func(w withdrawal) {
		started := fake.Must(w.start(withKey(w.Context(), "withdraw")))
		confirm := func() error {
			_, err := w.client.Loans.ConfirmInvoiceWithdrawal(withKey(w.Context(), "confirm"), *started,
				lending.WithdrawInvoiceRequestData{DateUTC: time.Unix(0, 0), OTP: lending.NewSecret("123456")})
			return err
		}
		w.service.Fail(onboarding.Confirm, lendingtest.Fault{ResetBefore: true})
		require.ErrorIs(w, confirm(), lending.ErrOutcomeUnknown)
		w.service.UpdateLoan(w.loan.String(), func(l *lendingtest.Loan) { l.Withdrawals = make([]lendingtest.Withdrawal, 1) })
		w.service.Fail(createApplicationRoute, lendingtest.Fault{ResetBefore: true})
		require.ErrorIs(w, w.creates(w.T, w.client)("application"), lending.ErrOutcomeUnknown)
		bubble.Elapse(maxLateness)
		_, err := w.log.Check(w.Context(), w.client)
		require.ErrorAs(w, err, new(*lending.PanicError))
		assert.True(w, lending.NextOf(err).Person)
		assert.Equal(w, store.InDoubt, fake.Must(w.log.Lookup(w.Context(), "confirm")).State)
		assert.Equal(w, store.Free, fake.Must(w.log.Lookup(w.Context(), "application")).State)
	})
}

// listedFromItsStart are the options for such a service.
func listedFromItsStart() idempotency.Options {
	opts := repeating(idempotency.WithdrawInvoice)
	opts.IsConfirmed = func(w lending.AdvanceProjection) bool {
		var of struct{ Status string }
		return w.Decode(&of) == nil && of.Status == "Completed"
	}
	return opts
}

// withdrawal is a loan with a calculation, and a client with a route that is safe to repeat.
type withdrawal struct {
	*testing.T
	order

	client *lending.Client
	log    *idempotency.Log
}

func repeating(route idempotency.Route) idempotency.Options {
	return idempotency.Options{SafeToRepeat: []idempotency.Route{route}}
}

func inWithdrawal(t *testing.T, name string, opts idempotency.Options, test func(withdrawal)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			service := lendingtest.New()
			defer service.Close()
			log := fake.Must(idempotency.NewLog(store.NewMemory(), &opts))
			w := withdrawal{t, newOrder(service), processWith(t, service, log), log}
			loan := fake.Must(w.client.Loans.Get(t.Context(), w.loan))
			fake.Must(w.client.Calculation.Invoice(t.Context(), loan.ApplicationID, fake.Invoice()))
			test(w)
		})
	})
}

func (w withdrawal) start(ctx context.Context) (*lending.InvoiceWithdrawal, error) {
	return w.client.Loans.WithdrawInvoice(ctx, w.loan, lending.InvoiceWithdrawalRequest{Calculation: *fake.Invoice()})
}

// confirm is the loop of AGENTS.md, with a customer who enters the password after 20 seconds. It
// returns the number of further passwords.
func (w withdrawal) confirm() (passwords int) {
	w.Helper()
	var started *lending.InvoiceWithdrawal
	require.NoError(w, w.until(func() (err error) {
		started, err = w.start(withKey(w.Context(), "withdraw"))
		return err
	}))
	for {
		bubble.Elapse(2 * time.Second)
		password := lending.NewSecret(w.service.OTP(w.loan.String()))
		bubble.Elapse(18 * time.Second)
		err := w.until(func() error {
			_, err := w.client.Loans.ConfirmInvoiceWithdrawal(withKey(w.Context(), "confirm"), *started,
				lending.WithdrawInvoiceRequestData{DateUTC: time.Unix(0, 0), OTP: password})
			return err
		})
		if err == nil {
			return passwords
		}
		passwords++
		require.Less(w, passwords, 4, err)
		require.NoError(w, w.until(func() error {
			_, err := w.client.Loans.ResendWithdrawalOTP(withKey(w.Context(), fmt.Sprint("password/", passwords)), w.loan)
			return err
		}))
	}
}

// until calls step until it succeeds or no retry helps.
func (w withdrawal) until(step func() error) error {
	w.Helper()
	for range 60 {
		err := step()
		require.NotErrorIs(w, err, idempotency.ErrLocked)
		next := lending.NextOf(err)
		require.False(w, next.Person, err)
		if err == nil || !next.Retry {
			return err
		}
		bubble.Elapse(max(next.After, time.Second))
	}
	return step()
}

// TestDateThatADatabaseHasKeptIsTheSame confirms with a time in nanoseconds, and again with the time as
// PostgreSQL keeps it.
func TestDateThatADatabaseHasKeptIsTheSame(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		o, client := newOrder(service), process()
		prepareOrder(t, client, &o)
		at := time.Date(2026, 3, 4, 5, 6, 7, 123_456_789, time.UTC)
		for _, date := range []time.Time{at, at.Truncate(time.Microsecond)} {
			_, err := client.Loans.ConfirmInvoiceWithdrawal(lending.WithIdempotencyKey(t.Context(), "the/key"), *o.withdrawal,
				lending.WithdrawInvoiceRequestData{DateUTC: date, OTP: lending.NewSecret(service.OTP(o.loan.String()))})
			require.NoError(t, err)
		}
		assert.Equal(t, 1, service.Executed(confirmRoute))
	})
}

// TestBalanceCanLagBehindAWithdrawal has the balance not show the first withdrawal when the second begins. The request
// of the second is lost.
func TestBalanceCanLagBehindAWithdrawal(t *testing.T) {
	const balance = "GET /api/Loan/get-total-balance/{loanId}"
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, _ *tampered, client *lending.Client) {
		confirm := withdrawals(t, service, client)
		reads := 0
		require.NoError(t, confirm("order-1/confirm"))
		bubble.Elapse(time.Minute)
		service.Answer(balance, func(w http.ResponseWriter, r *http.Request) {
			wire.Answer(http.StatusOK, fmt.Sprintf(`{"totalBalance":%d}`, min(reads, 1)))(w, r)
			reads++
		})
		service.Fail(confirmRoute, lendingtest.Fault{ResetBefore: true})
		require.ErrorIs(t, confirm("order-2/confirm"), lending.ErrOutcomeUnknown)
		bubble.Elapse(maxLateness)
		require.NoError(t, confirm("order-2/confirm"))
		assert.Equal(t, 2, service.Executed(confirmRoute))
	})
}
