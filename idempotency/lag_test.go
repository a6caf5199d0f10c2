package idempotency_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/lendingtest"
)

// TestReadsThatLagDoNotTakeTheFirstForTheSecond makes two mutations of one lock in a row, and
// loses the request of the second. The check before the second does not show the first yet, and
// the check after it does: the first must not be taken for the second.
func TestReadsThatLagDoNotTakeTheFirstForTheSecond(t *testing.T) {
	for _, test := range []struct {
		name  string
		first []keyOption
	}{
		{"counted before", nil},
		{"with a check of the caller", []keyOption{withCheck(func(context.Context) (idempotency.Verdict, error) {
			return idempotency.NeedsReview("nobody asks"), nil
		})}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service := lendingtest.New(lendingtest.WithReadLag(time.Second))
				defer service.Close()
				o, log := newOrder(service), fake.Must(idempotency.NewLog(store.NewMemory(), nil))
				client := processWith(t, service, log)
				create := o.createsID(t, client)
				first, err := create("first", test.first...)
				require.NoError(t, err)
				service.Fail(createApplicationRoute, lendingtest.Fault{ResetBefore: true})
				_, err = create("second")
				require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
				bubble.Elapse(2 * time.Second) // the reads show the first
				_, err = create("second")
				require.Error(t, err, "it has not happened")
				require.NotEqual(t, lending.OutcomeDone, lending.OutcomeOf(err))
				assert.Len(t, fake.Must(log.Keys(t.Context(), doubtful)), 1)
				assert.Equal(t, 1, service.Executed(createApplicationRoute))
				if test.first != nil {
					return // nothing has counted the applications
				}
				bubble.Elapse(maxLateness)
				second, err := create("second")
				require.NoError(t, err)
				assert.NotEqual(t, first, second)
				assert.Equal(t, 2, service.Executed(createApplicationRoute))
			})
		})
	}
}

// TestReadsThatLagShowTheRightID has the answer of the second application lost, not its request:
// its id is found, and not that of the first.
func TestReadsThatLagShowTheRightID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := lendingtest.New(lendingtest.WithReadLag(time.Second))
		defer service.Close()
		o := newOrder(service)
		client := processWith(t, service, fake.Must(idempotency.NewLog(store.NewMemory(), nil)))
		create := o.createsID(t, client)
		_, err := create("first")
		require.NoError(t, err)
		service.Fail(createApplicationRoute, lendingtest.Fault{ResetAfter: true})
		_, err = create("second")
		require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
		_, err = create("second") // the reads show neither
		require.ErrorIs(t, err, idempotency.ErrInDoubt)
		bubble.Elapse(2 * time.Second)
		second, err := create("second")
		require.NoError(t, err)
		all := service.Snapshot().Applications
		assert.Equal(t, all[len(all)-1].ID, second.String())
	})
}

// TestALostResponseIsFoundBeforeTheNextMutation cuts the response of the first application. The
// second application waits until reads show the id of the first: of two new applications nobody
// could tell which is whose.
func TestALostResponseIsFoundBeforeTheNextMutation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := lendingtest.New(lendingtest.WithReadLag(time.Second))
		defer service.Close()
		o := newOrder(service)
		client := processWith(t, service, fake.Must(idempotency.NewLog(store.NewMemory(), nil)))
		create := o.createsID(t, client)
		service.Fail(createApplicationRoute, lendingtest.Fault{CutBody: 3})
		_, err := create("first")
		require.ErrorIs(t, err, lending.ErrMayHaveHappened)
		begun := service.Snapshot().Applications
		_, err = create("second")
		require.ErrorIs(t, err, idempotency.ErrLocked)
		require.Positive(t, lending.NextOf(err).After)
		var second lending.ApplicationID
		patiently(t, func() error { second, err = create("second"); return err })
		first, err := create("first")
		require.NoError(t, err)
		assert.Equal(t, begun[len(begun)-1].ID, first.String())
		assert.NotEqual(t, first, second)
		assert.Equal(t, 2, service.Executed(createApplicationRoute))
	})
}

// TestReadsThatLagDoNotClaimAWithdrawal is the README's way through two withdrawals: the second
// is lost, and only the first has moved money.
func TestReadsThatLagDoNotClaimAWithdrawal(t *testing.T) {
	const confirmRoute = "POST /api/Loan/confirm-withdrawal-invoice/{loanId}"
	synctest.Test(t, func(t *testing.T) {
		service := lendingtest.New(lendingtest.WithReadLag(time.Second))
		defer service.Close()
		loan := service.AddLoan(lendingtest.Loan{})
		log := fake.Must(idempotency.NewLog(store.NewMemory(), nil))
		client := processWith(t, service, log)
		calculation := lending.CalculationRequest{Amount: json.Number(lendingtest.Cents(1000_00).String()), Terms: 6}
		begun := lending.InvoiceWithdrawal{
			LoanID: lending.LoanID(uuid.MustParse(loan.ID)), AdvanceRate: "0.8", Amount: calculation.Amount,
		}
		begin := func() {
			application := lending.ApplicationID(uuid.MustParse(loan.ApplicationID))
			fake.Must(client.Calculation.Invoice(t.Context(), application, &calculation))
			fake.Must(client.Loans.WithdrawInvoice(t.Context(), begun.LoanID,
				lending.InvoiceWithdrawalRequest{Calculation: calculation}))
		}
		confirm := func(key string) error {
			_, err := client.Loans.ConfirmInvoiceWithdrawal(lending.WithIdempotencyKey(t.Context(), key), begun,
				lending.WithdrawInvoiceRequestData{
					DateUTC: time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC),
					OTP:     lending.NewSecret(service.OTP(loan.ID)),
				})
			return err
		}
		begin()
		require.NoError(t, confirm("first"))
		begin()
		service.Fail(confirmRoute, lendingtest.Fault{ResetBefore: true})
		require.ErrorIs(t, confirm("second"), lending.ErrOutcomeUnknown)
		bubble.Elapse(2 * time.Second)
		require.Error(t, confirm("second"), "it has not happened")
		assert.Len(t, fake.Must(log.Keys(t.Context(), doubtful)), 1)
		assert.Equal(t, 1, service.Executed(confirmRoute))
	})
}

// TestLockIsHeldWhereNothingIsRemembered has the store fail to keep what a mutation has left: the
// next one of the lock waits until reads show it.
func TestLockIsHeldWhereNothingIsRemembered(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		o := newOrder(service)
		create := o.creates(t, client)
		entries.save = func(entry store.Entry) error {
			if strings.HasPrefix(entry.Key, "#") {
				return errStore
			}
			return nil
		}
		require.NoError(t, create("first"))
		entries.save = nil
		err := create("second")
		require.ErrorIs(t, err, idempotency.ErrLocked)
		var refused *idempotency.Error
		require.ErrorAs(t, err, &refused)
		assert.Equal(t, maxLateness, refused.RetryAfter)
		bubble.Elapse(maxLateness)
		require.NoError(t, create("second"))
		assert.Equal(t, 2, service.Executed(createApplicationRoute))
	})
}

// TestVerdictOfAPersonIsRemembered has a person say that the first of two mutations happened,
// while reads do not show it yet.
func TestVerdictOfAPersonIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := lendingtest.New(lendingtest.WithReadLag(time.Minute))
		defer service.Close()
		o, log := newOrder(service), fake.Must(idempotency.NewLog(store.NewMemory(), nil))
		client := processWith(t, service, log)
		create := o.creates(t, client)
		service.Fail(createApplicationRoute, lendingtest.Fault{ResetAfter: true})
		require.ErrorIs(t, create("first"), lending.ErrOutcomeUnknown)
		require.NoError(t, log.Resolve(t.Context(), "first", says(idempotency.Happened(o.application)))) // an older one
		service.Fail(createApplicationRoute, lendingtest.Fault{ResetBefore: true})
		require.ErrorIs(t, create("second"), lending.ErrOutcomeUnknown)
		bubble.Elapse(2 * time.Minute)
		require.ErrorIs(t, create("second"), idempotency.ErrInDoubt)
		assert.Equal(t, 1, service.Executed(createApplicationRoute))
	})
}

// TestCustomerThatReadsDoNotShowYetHasNoApplications creates a customer and at once an application
// whose request is lost: the check before it met no customer, the one after it an empty list.
// Neither shows an application.
func TestCustomerThatReadsDoNotShowYetHasNoApplications(t *testing.T) {
	for _, test := range []struct {
		name     string
		fault    lendingtest.Fault
		again    error // of the call after the reads have caught up
		executed int
	}{
		{"request lost", lendingtest.Fault{ResetBefore: true}, idempotency.ErrInDoubt, 1},
		{"answer lost", lendingtest.Fault{ResetAfter: true}, nil, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service := lendingtest.New(lendingtest.WithReadLag(time.Second))
				defer service.Close()
				client := processWith(t, service, fake.Must(idempotency.NewLog(store.NewMemory(), nil)))
				customer := fake.Must(client.Applications.CreateCustomer(
					lending.WithIdempotencyKey(t.Context(), "customer"), fake.Newcomer()))
				create := func() error {
					request := lending.ApplicationRequest{CustomerID: customer.ID, BusinessName: "B", BusinessZip: "94105"}
					ctx := lending.WithIdempotencyKey(t.Context(), "application")
					_, err := client.Applications.Create(ctx, request, nil)
					return err
				}
				service.Fail(createApplicationRoute, test.fault)
				require.ErrorIs(t, create(), lending.ErrOutcomeUnknown)
				bubble.Elapse(2 * time.Second)
				require.ErrorIs(t, create(), test.again)
				bubble.Elapse(maxLateness)
				require.NoError(t, create())
				assert.Equal(t, test.executed, service.Executed(createApplicationRoute))
			})
		})
	}
}

// TestReplacedApplicantCountsForNobody has an application that came with an applicant: whether
// another primary applicant is one more is not known, and the next count relies on neither.
func TestReplacedApplicantCountsForNobody(t *testing.T) {
	withLog(t, func(t *testing.T, service *lendingtest.Service, process newClient, _ *idempotency.Log) {
		o, client := newOrder(service), process()
		prepareOrder(t, client, &o)
		primary := lending.PrimaryApplicantRequest{Extra: catalog.Unpublished{"firstName": "Ada"}}
		require.NoError(t, client.Approval.AddPrimaryApplicantDetails(t.Context(), o.offered, primary))
		require.NoError(t, client.Approval.AddPrimaryApplicantDetails(
			lending.WithIdempotencyKey(t.Context(), "again"), o.offered, primary))
		const add = "POST /api/ApplicationApproval/add-secondary-applicant-details/{applicationId}"
		service.Fail(add, lendingtest.Fault{ResetAfter: true})
		secondary := func() error {
			return client.Approval.AddSecondaryApplicantDetails(lending.WithIdempotencyKey(t.Context(), "secondary"),
				o.offered, lending.SecondaryApplicantRequest{Extra: catalog.Unpublished{"firstName": "Grace"}})
		}
		require.ErrorIs(t, secondary(), lending.ErrOutcomeUnknown)
		bubble.Elapse(maxLateness)
		require.ErrorIs(t, secondary(), idempotency.ErrNeedsReview)
		assert.Equal(t, 1, service.Executed(add))
	})
}
