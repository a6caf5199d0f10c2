package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/lendingtest"
)

// A call checks again after growing pauses, and finds a mutation that the service executes just
// within MaxLateness.
func TestKeyWaitsUntilAnAbsenceHasLasted(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		client, user := process(), fake.Newcomer()
		service.Fail(fake.CreateRoute, lendingtest.Fault{Late: maxLateness - time.Second})
		ctx := lending.WithIdempotencyKey(t.Context(), "order-42/customer")
		_, err := client.Applications.CreateCustomer(ctx, user)
		require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
		var waits []time.Duration
		for err != nil {
			require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
			if _, err = client.Applications.CreateCustomer(ctx, user); err != nil {
				require.ErrorIs(t, err, idempotency.ErrInDoubt)
				waits = append(waits, lending.NextOf(err).After.Round(time.Second))
				bubble.Elapse(lending.NextOf(err).After)
			}
		}
		var want []time.Duration
		for _, seconds := range []int{1, 1, 2, 4, 8, 16, 32, 64, 128, 44} { // together MaxLateness
			want = append(want, time.Duration(seconds)*time.Second)
		}
		assert.Equal(t, want, waits)
		assert.Equal(t, 1, service.Executed(fake.CreateRoute))
	})
}

// TestMutationLaterThanMaxLatenessHappensTwice shows the meaning of MaxLateness: the service executes a
// mutation twice if the first execution is later.
func TestMutationLaterThanMaxLatenessHappensTwice(t *testing.T) {
	for _, late := range []time.Duration{maxLateness - time.Second, maxLateness + time.Second} {
		t.Run(fmt.Sprint(late), func(t *testing.T) {
			keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
				o := newOrder(service)
				create := o.creates(t, process())
				service.Fail(createApplicationRoute, lendingtest.Fault{Late: late})
				require.ErrorIs(t, create("the/key"), lending.ErrOutcomeUnknown)
				bubble.Elapse(maxLateness)
				require.NoError(t, create("the/key"))
				require.NoError(t, service.Wait(t.Context()))
				want := 1
				if late > maxLateness {
					want = 2
				}
				assert.Equal(t, want, service.ExecutedFor(createApplicationRoute)[o.customer.String()])
			})
		})
	}
}

// TestFailedResendStaysInDoubt: a mutation was sent, lost its answer and is sent
// again may have happened the first time, or happen yet, whatever becomes of the second.
func TestFailedResendStaysInDoubt(t *testing.T) {
	refused := func(status int) func(*lendingtest.Service, *tampered) lending.Option {
		return func(service *lendingtest.Service, _ *tampered) lending.Option {
			service.Fail(renameRoute, lendingtest.Fault{Status: status})
			return nil
		}
	}
	for _, test := range []struct {
		name   string
		second func(*lendingtest.Service, *tampered) lending.Option
		want   error
		state  store.State
	}{
		{"refused", refused(http.StatusBadRequest), lending.ErrOutcomeUnknown, store.InDoubt},
		{"without a token", refused(http.StatusUnauthorized), lending.ErrOutcomeUnknown, store.InDoubt},
		{"too often", refused(http.StatusTooManyRequests), lending.ErrOutcomeUnknown, store.InDoubt},
		{"no connection", func(service *lendingtest.Service, _ *tampered) lending.Option {
			refuses := wire.RoundTripper(func(r *http.Request) (*http.Response, error) {
				if strings.Contains(r.URL.Path, "update-application-name") {
					return nil, &net.OpError{Op: "dial", Err: errors.New("refused")}
				}
				return service.Transport().RoundTrip(r)
			})
			return lending.WithHTTPClient(&http.Client{Transport: refuses})
		}, lending.ErrOutcomeUnknown, store.InDoubt},
		{"no save", func(_ *lendingtest.Service, entries *tampered) lending.Option {
			entries.failOnce(false, store.Sent)
			return nil
		}, idempotency.ErrStore, store.InDoubt},
		{"no store after the save", func(_ *lendingtest.Service, entries *tampered) lending.Option {
			entries.saved = func(store.Entry) error {
				gone := time.Now()
				entries.saved, entries.save = nil, func(store.Entry) error {
					return map[bool]error{true: errStore}[time.Since(gone) < 2*time.Second]
				}
				return errStore
			}
			return nil
		}, idempotency.ErrStore, store.Sent},
	} {
		t.Run(test.name, func(t *testing.T) {
			withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
				o, log := newOrder(service), fake.Must(idempotency.NewLog(entries, nil))
				service.Fail(renameRoute, lendingtest.Fault{Late: maxLateness - time.Second})
				require.ErrorIs(t, o.rename(t, client, "name-1", "Old"), lending.ErrOutcomeUnknown)
				resends := client
				if option := test.second(service, entries); option != nil {
					resends = processWith(t, service, log, option)
				}
				err := o.rename(t, resends, "name-1", "Old")
				require.ErrorIs(t, err, test.want)
				require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
				inDoubt := fake.Must(log.Keys(t.Context(), doubtful))
				require.Len(t, inDoubt, 1)
				assert.Equal(t, test.state, inDoubt[0].State)
				bubble.Elapse(2 * time.Second) // the store is back
				require.ErrorIs(t, o.rename(t, client, "name-2", "New"), idempotency.ErrLocked, "the older one would overwrite it")
				_ = refused(http.StatusBadRequest)(service, entries)
				require.ErrorIs(t, o.rename(t, client, "name-1", "Old"), lending.ErrOutcomeUnknown)
			})
		})
	}
}

// TestFalseConflictStaysInDoubt has the store save the second send and report a
// conflict, like a driver after the repeat of a save with a lost answer.
func TestFalseConflictStaysInDoubt(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		o := newOrder(service)
		service.Fail(renameRoute, lendingtest.Fault{ResetAfter: true})
		ctx := lending.WithIdempotencyKey(t.Context(), "the/key")
		_, err := client.Applications.UpdateName(ctx, o.application, "New")
		require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
		entries.saved = func(store.Entry) error {
			entries.saved = nil // once
			return store.ErrConflict
		}
		service.Fail(renameRoute, lendingtest.Fault{Status: http.StatusBadRequest})
		_, err = client.Applications.UpdateName(ctx, o.application, "New")
		assert.Equal(t, lending.OutcomeUnknown, lending.OutcomeOf(err), "the first one was executed")
		assert.Equal(t, store.InDoubt, fake.Must(entries.Load(t.Context(), ":the/key")).State)
		assert.Equal(t, 1, service.Executed(renameRoute))
	})
}

// TestRejectedResendsEndInReview: the first send may have succeeded, and the service refuses
// every further resend.
func TestRejectedResendsEndInReview(t *testing.T) {
	const cancelRoute = "POST /api/Application/cancel-application/{applicationId}"
	withLog(t, func(t *testing.T, service *lendingtest.Service, process newClient, log *idempotency.Log) {
		o, client := newOrder(service), process()
		cancel := func() error {
			return client.Applications.Cancel(lending.WithIdempotencyKey(t.Context(), "the/key"), o.application)
		}
		service.Fail(cancelRoute, lendingtest.Fault{ResetAfter: true})
		require.ErrorIs(t, cancel(), lending.ErrMayHaveHappened)
		service.Fail(cancelRoute, lendingtest.Fault{Status: http.StatusBadRequest, Times: -1})
		begun, arrived, last := time.Now(), len(service.Requests()), time.Duration(0)
		var err error
		for range 20 {
			var failed *lending.Error
			if err = cancel(); errors.Is(err, idempotency.ErrNeedsReview) {
				break
			}
			require.ErrorAs(t, err, &failed)
			assert.Equal(t, lending.OutcomeUnknown, failed.Outcome)
			require.Positive(t, failed.RetryAfter)
			require.GreaterOrEqual(t, failed.RetryAfter, last, "it grows")
			sent := len(service.Requests())
			require.Error(t, cancel())
			require.Len(t, service.Requests(), sent, "it waits")
			last = failed.RetryAfter
			bubble.Elapse(failed.RetryAfter)
			inDoubt := fake.Must(log.Keys(t.Context(), doubtful))
			require.Equal(t, time.Since(begun), inDoubt[0].Age, "it does not begin anew")
		}
		require.ErrorIs(t, err, idempotency.ErrNeedsReview)
		assert.LessOrEqual(t, len(service.Requests())-arrived, 6)
		bubble.Elapse(time.Hour)
		require.ErrorIs(t, cancel(), idempotency.ErrNeedsReview)
		assert.LessOrEqual(t, len(service.Requests())-arrived, 6)
		key := fake.Must(log.Keys(t.Context(), doubtful))[0]
		assert.Equal(t, time.Since(begun), key.Age)
		assert.Regexp(t, "^the service rejects every resend, and no", key.Why)
	})
}

// TestKeyChecksAgainAfterHalfTheWait has a batch executed between two reads of the look at it, which
// shows half of it.
func TestKeyChecksAgainAfterHalfTheWait(t *testing.T) {
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

// TestCheckFindsAnExecutionBetweenItsReads has a confirmation executed while the check of it waits
// for a read: some reads show the state before the confirmation, some the state after. The confirmation is found
// to have happened all the same, and no person is asked.
func TestCheckFindsAnExecutionBetweenItsReads(t *testing.T) {
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
				service.Fail(confirmRoute, lendingtest.Fault{Late: time.Second})
				require.ErrorIs(t, confirmed(), lending.ErrOutcomeUnknown)
				service.Fail(read, lendingtest.Fault{DelayBefore: 2 * time.Second})
				require.NoError(t, confirmed(), read)
				assert.Equal(t, 1, service.Executed(confirmRoute))
			})
		})
	}
}

// TestResendAfterWithCheckMakesANewCheck resends a mutation because the caller's check says so. The read
// before the first send does not count for the resend. At the end the check brings no UUID.
func TestResendAfterWithCheckMakesANewCheck(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		o := newOrder(service)
		create := o.creates(t, process())
		lost := lendingtest.Fault{ResetBefore: true}
		service.Fail(createApplicationRoute, lost)
		require.ErrorIs(t, create("key"), lending.ErrOutcomeUnknown)
		// somebody without a key
		service.AddApplication(lendingtest.Application{CustomerID: o.customer.String()})
		bubble.Elapse(maxLateness)
		service.Fail(createApplicationRoute, lost)
		notOurs := withCheck(func(context.Context) (idempotency.Verdict, error) { return idempotency.NotHappened(), nil })
		require.ErrorIs(t, create("key", notOurs), lending.ErrOutcomeUnknown)
		bubble.Elapse(maxLateness)
		require.ErrorIs(t, create("key"), idempotency.ErrNeedsReview, "a resend that never arrived made the record")
		err := create("key",
			withCheck(func(context.Context) (idempotency.Verdict, error) { return idempotency.Happened("no UUID"), nil }))
		require.ErrorIs(t, err, idempotency.ErrAnswerLost)
		assert.Equal(t, lending.OutcomeDone, lending.OutcomeOf(err))
	})
}

// TestRecordOfAnotherProgramIsTaken has other programs create records like those of the mutation.
func TestRecordOfAnotherProgramIsTaken(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		client, user := process(), fake.Newcomer()
		create := creation(t, client, user)
		service.AddCustomer(lendingtest.Customer{Email: user.Email})
		service.Fail(fake.CreateRoute, lendingtest.Fault{ResetBefore: true})
		require.ErrorIs(t, create("customer"), lending.ErrOutcomeUnknown)
		bubble.Elapse(maxLateness)
		require.ErrorIs(t, create("customer"), idempotency.ErrNeedsReview, "there was one before")

		loan := service.AddLoan(lendingtest.Loan{})
		confirm := func() error {
			_, err := client.Loans.ConfirmInvoiceWithdrawal(lending.WithIdempotencyKey(t.Context(), "confirm"),
				lending.InvoiceWithdrawal{
					LoanID: lending.LoanID(uuid.MustParse(loan.ID)), Amount: "1", AdvanceRate: "0.8",
				}, lending.WithdrawInvoiceRequestData{
					DateUTC: time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC),
					OTP:     lending.NewSecret("123456"),
				})
			return err
		}
		service.Fail(confirmRoute, lendingtest.Fault{ResetBefore: true})
		require.ErrorIs(t, confirm(), lending.ErrOutcomeUnknown)
		service.AddTransactions(loan.ID, lendingtest.Transaction{Type: "Repayment", Amount: -100})
		bubble.Elapse(maxLateness)
		require.ErrorIs(t, confirm(), idempotency.ErrNeedsReview, "money has moved")
	})
}

// TestConfirmedMutationIsNotResent although no read shows it: reads lag behind, or never show it.
func TestConfirmedMutationIsNotResent(t *testing.T) {
	for _, test := range []struct {
		name string
		lag  time.Duration
		want error
	}{
		{"later", 10 * time.Second, nil},
		{"never", time.Hour, idempotency.ErrAnswerLost},
	} {
		t.Run(test.name, func(t *testing.T) {
			withLog(t, func(t *testing.T, service *lendingtest.Service, process newClient, _ *idempotency.Log) {
				o, client := newOrder(service), process()
				create := o.createsID(t, client)
				service.Fail(createApplicationRoute, lendingtest.Fault{CutBody: 5})
				var id lending.ApplicationID
				var err error
				for calls, begun := 0, time.Now(); time.Since(begun) < 10*time.Minute; calls++ {
					require.Less(t, calls, 20, "the waits grow")
					if id, err = create("the/key"); err == nil {
						break
					}
					require.Equal(t, lending.OutcomeDone, lending.OutcomeOf(err))
					var failed *lending.Error
					require.ErrorAs(t, err, &failed)
					bubble.Elapse(max(failed.RetryAfter, time.Second))
					if failed.RetryAfter == 0 && calls > 0 { // a person is needed
						break
					}
				}
				require.ErrorIs(t, err, test.want)
				assert.Equal(t, 1, service.Executed(createApplicationRoute))
				if err == nil {
					all := service.Snapshot().Applications
					assert.Equal(t, all[len(all)-1].ID, id.String())
				}
			}, lendingtest.WithReadLag(test.lag))
		})
	}
}

// TestRejectedResendKeepsTheOutcome has a service that cuts or loses the response to a calculation, and rejects the
// resend: the outcome of the error is still that of the first send, also if a check of the caller finds nothing. No
// other calculation waits for a calculation that is done.
func TestRejectedResendKeepsTheOutcome(t *testing.T) {
	findsNothing := withCheck(func(context.Context) (idempotency.Verdict, error) { return idempotency.NotHappened(), nil })
	for _, test := range []struct {
		name  string
		first lendingtest.Fault
		wait  time.Duration
		opts  []keyOption
		want  lending.Outcome
	}{
		{"cut", lendingtest.Fault{CutBody: 3}, maxLateness, nil, lending.OutcomeDone},
		{"cut, with a check", lendingtest.Fault{CutBody: 3}, maxLateness, []keyOption{findsNothing}, lending.OutcomeDone},
		{"lost, with a check", lendingtest.Fault{ResetAfter: true}, 0, []keyOption{findsNothing}, lending.OutcomeUnknown},
	} {
		t.Run(test.name, func(t *testing.T) {
			keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
				const route = "POST /api/Calculation/application-invoice-calculation"
				o, client := newOrder(service), process()
				calculate := func(key string) error {
					_, err := client.Calculation.Invoice(withKey(t.Context(), key, test.opts...), o.application, fake.Invoice())
					return err
				}
				service.Fail(route, test.first)
				require.Equal(t, test.want, lending.OutcomeOf(calculate("old")))
				bubble.Elapse(test.wait)
				service.Fail(route, lendingtest.Fault{Status: http.StatusBadRequest})
				err := calculate("old")
				assert.Equal(t, test.want, lending.OutcomeOf(err))
				var failed *lending.Error
				require.ErrorAs(t, err, &failed)
				assert.Equal(t, http.StatusBadRequest, failed.StatusCode)
				if test.opts == nil {
					require.NoError(t, calculate("new"))
					bubble.Elapse(failed.RetryAfter)
					require.NoError(t, calculate("old"))
				}
			})
		})
	}
}
