package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
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

const createApplicationRoute = "POST /api/Application/create-application"

// TestCheckBeforeIsMadeUnderTheLock has another application made for the customer between the look
// of the second mutation and its sending.
func TestCheckBeforeIsMadeUnderTheLock(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		request := newOrder(service).request()
		looked, goOn := make(chan struct{}), make(chan struct{})
		waits := wire.RoundTripper(func(r *http.Request) (*http.Response, error) {
			resp, err := service.Transport().RoundTrip(r)
			if r.Method == http.MethodGet && looked != nil {
				close(looked)
				looked = nil
				<-goOn
			}
			return resp, err
		})
		slow := process(lending.WithHTTPClient(&http.Client{Transport: waits}))
		seen := looked
		second := make(chan error)
		ctx := lending.WithIdempotencyKey(t.Context(), "second")
		go func() {
			_, err := slow.Applications.Create(ctx, request, nil)
			second <- err
		}()
		<-seen
		bubble.Elapse(time.Minute)
		first, err := process().Applications.Create(lending.WithIdempotencyKey(t.Context(), "first"), request, nil)
		require.NoError(t, err)
		service.Fail(createApplicationRoute, lendingtest.Fault{ResetBefore: true})
		close(goOn)
		require.ErrorIs(t, <-second, lending.ErrOutcomeUnknown)
		bubble.Elapse(maxLateness)
		id, err := process().Applications.Create(ctx, request, nil)
		require.NoError(t, err)
		assert.NotEqual(t, first, id, "the application of another key was taken for this one's")
		assert.Equal(t, 2, service.Executed(createApplicationRoute))
	})
}

const renameRoute = "GET /api/Application/update-application-name/{applicationId}"

// frozen is a store that keeps one process waiting after it has saved a mutation as sent, or
// before it saves what has become of it.
type frozen struct {
	store.Store
	sent bool
	goOn chan struct{}
}

func (f frozen) Save(ctx context.Context, entry store.Entry) error {
	isSent := entry.State == store.Sent
	if !isSent && !f.sent {
		<-f.goOn
	}
	err := f.Store.Save(ctx, entry)
	if isSent && f.sent {
		<-f.goOn
	}
	return err
}

// besideFrozen calls a mutation in a process that stands still: after it has saved sent, or before it saves
// the outcome. It returns another process, its log, and a function that lets the first one go on to its end.
func besideFrozen(t *testing.T, service *lendingtest.Service, sent bool, call func(*lending.Client) error) (
	other *lending.Client, log *idempotency.Log, goOn func() error,
) {
	t.Helper()
	entries, wake, owned := store.NewMemory(), make(chan struct{}), make(chan error)
	owner := processWith(t, service, fake.Must(idempotency.NewLog(frozen{entries, sent, wake}, nil)))
	log = fake.Must(idempotency.NewLog(entries, nil))
	go func() { owned <- call(owner) }()
	return processWith(t, service, log), log, func() error {
		close(wake)
		return <-owned
	}
}

// TestOwnerKnowsMore freezes a process while another finds what it can. The result of the first process
// counts more than a review, and less than a check with a result.
func TestOwnerKnowsMore(t *testing.T) {
	for _, test := range []struct {
		name string
		sent bool
	}{{"done", false}, {"not sent", true}} {
		t.Run(test.name, func(t *testing.T) {
			keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
				id := lending.ApplicationID(uuid.MustParse(service.AddApplication(lendingtest.Application{}).ID))
				post := func(client *lending.Client) error {
					ctx, stop := context.WithTimeout(lending.WithIdempotencyKey(t.Context(), "greeting"),
						10*time.Second)
					defer stop()
					return client.Communication.Post(ctx, id,
						&lending.CommunicationRequest{Extra: map[string]string{"message": "hello"}})
				}
				other, _, goOn := besideFrozen(t, service, test.sent, post)
				bubble.Elapse(11 * time.Second)
				require.ErrorIs(t, post(other), idempotency.ErrNeedsReview)
				if err := goOn(); test.sent {
					require.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
				} else {
					require.NoError(t, err)
				}
				require.NoError(t, post(other), "the owner knew")
				assert.Len(t, service.Snapshot().Applications[0].Messages, 1)
			})
		})
	}
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		user := fake.Newcomer()
		create := func(client *lending.Client) (*lending.UserResponse, error) {
			ctx, stop := context.WithTimeout(lending.WithIdempotencyKey(t.Context(), "customer"), 10*time.Second)
			defer stop()
			return client.Applications.CreateCustomer(ctx, user)
		}
		other, _, goOn := besideFrozen(t, service, true, func(client *lending.Client) error {
			_, err := create(client)
			return err
		})
		bubble.Elapse(11 * time.Second)
		_, err := other.Applications.CreateCustomer(t.Context(), user) // by somebody without a key
		require.NoError(t, err)
		found, err := create(other)
		require.NoError(t, err)
		require.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(goOn()))
		replayed, err := create(other)
		require.NoError(t, err, "it has been returned as done")
		assert.Equal(t, found, replayed)
	})
}

// TestFrozenOwner has a process stand still with the answer in its hands, and another one send
// the command again: that is executed late, or it is refused.
func TestFrozenOwner(t *testing.T) {
	for _, test := range []struct {
		name  string
		after time.Duration
		fault lendingtest.Fault
	}{
		{"sent again", 11 * time.Second, lendingtest.Fault{Late: maxLateness - time.Second}},
		{"refused", 11*time.Second + maxLateness, lendingtest.Fault{Status: http.StatusTooManyRequests}},
	} {
		t.Run(test.name, func(t *testing.T) {
			keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
				o := newOrder(service)
				older := func(client *lending.Client) error { return o.rename(t, client, "older", "Older") }
				other, _, goOn := besideFrozen(t, service, false, older)
				bubble.Elapse(test.after)
				service.Fail(renameRoute, test.fault)
				require.Error(t, older(other))
				require.ErrorIs(t, o.rename(t, other, "newer", "Newer"), idempotency.ErrLocked)
				require.NoError(t, goOn())
				require.ErrorIs(t, o.rename(t, other, "newer", "Newer"), idempotency.ErrLocked)
				bubble.Elapse(maxLateness + 10*time.Second)
				require.NoError(t, o.rename(t, other, "newer", "Newer"))
				require.NoError(t, older(other))
				require.NoError(t, service.Wait(t.Context()))
				assert.Equal(t, "Newer", service.Snapshot().Applications[1].BusinessName)
			})
		})
	}
}

// TestFrozenOwnerFindsTheLockTaken has a process stand still with the answer in its hands
// until a person has freed the mutation, and another has the lock. The answer is kept all the same.
func TestFrozenOwnerFindsTheLockTaken(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		o := newOrder(service)
		older := func(client *lending.Client) error { return o.rename(t, client, "older", "Older") }
		other, log, goOn := besideFrozen(t, service, false, older)
		bubble.Elapse(11 * time.Second)
		service.Fail(renameRoute, lendingtest.Fault{ResetBefore: true})
		require.ErrorIs(t, older(other), lending.ErrOutcomeUnknown)
		bubble.Elapse(maxLateness)
		require.NoError(t, log.Resolve(t.Context(), "older", idempotency.Resolution{
			By: "Grace", Why: "not seen", Sends: 2, Verdict: idempotency.NotHappened(),
		}))
		bubble.Elapse(maxLateness)
		service.Fail(renameRoute, lendingtest.Fault{ResetBefore: true})
		require.ErrorIs(t, o.rename(t, other, "newer", "Newer"), lending.ErrOutcomeUnknown)
		require.NoError(t, goOn())
		require.NoError(t, older(other))
		require.NoError(t, o.rename(t, other, "newer", "Newer"))
		assert.Equal(t, "Newer", service.Snapshot().Applications[1].BusinessName)
	})
}

// TestFreeMutationLooksAgain frees a mutation that may have left, by a person or by a refusal,
// and has another of its lock happen before it is sent again.
func TestFreeMutationLooksAgain(t *testing.T) {
	for _, resolved := range []bool{true, false} {
		t.Run(fmt.Sprint(resolved), func(t *testing.T) {
			keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
				log := fake.Must(idempotency.NewLog(store.NewMemory(), nil))
				client, create := processWith(t, service, log), creating(t, service)
				lost := lendingtest.Fault{ResetBefore: true}
				service.Fail(createApplicationRoute, lost)
				_, err := create(client, "first")
				require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
				said := idempotency.Resolution{By: "Grace", Why: "looked it up", Verdict: idempotency.NotHappened()}
				require.ErrorIs(t, log.Resolve(t.Context(), "first", said), idempotency.ErrInDoubt)
				bubble.Elapse(maxLateness)
				if resolved {
					require.NoError(t, log.Resolve(t.Context(), "first", said))
				} else {
					service.Fail(createApplicationRoute, lendingtest.Fault{Status: http.StatusTooManyRequests})
					_, err = create(client, "first")
					require.Equal(t, lending.OutcomeRejected, lending.OutcomeOf(err))
				}
				second, err := create(client, "second")
				require.NoError(t, err)
				service.Fail(createApplicationRoute, lost)
				_, err = create(client, "first")
				require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
				bubble.Elapse(maxLateness)
				first, err := create(client, "first")
				require.NoError(t, err)
				assert.NotEqual(t, second, first)
				assert.Equal(t, 2, service.Executed(createApplicationRoute))
			})
		})
	}
}

// creating returns a function that creates an application for a customer, who is the same and
// has one.
func creating(t *testing.T, service *lendingtest.Service) func(client *lending.Client, key string,
	opts ...keyOption) (lending.ApplicationID, error) {
	t.Helper()
	customer := lending.CustomerID(uuid.MustParse(service.AddApplication(lendingtest.Application{}).CustomerID))
	return func(client *lending.Client, key string, opts ...keyOption) (lending.ApplicationID, error) {
		return client.Applications.Create(withKey(t.Context(), key, opts...), lending.ApplicationRequest{
			CustomerID: customer, BusinessName: "B", BusinessZip: "94105",
		}, nil)
	}
}

// TestLatenessBeginsWithTheEndOfTheLease has a process stand still before it sends: it goes on
// when the mutation may be sent again, and may not, and gives nothing free that is not its own.
func TestLatenessBeginsWithTheEndOfTheLease(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		create := creating(t, service)
		other, log, goOn := besideFrozen(t, service, true, func(owner *lending.Client) error {
			_, err := create(owner, "key")
			return err
		})
		bubble.Elapse(time.Minute)
		_, err := create(other, "key")
		require.ErrorIs(t, err, idempotency.ErrInProgress)
		said := idempotency.Resolution{By: "Grace", Why: "looked it up", Verdict: idempotency.Happened(nil)}
		require.ErrorIs(t, log.Resolve(t.Context(), "key", said), idempotency.ErrInProgress)
		bubble.Elapse(maxLateness) // since the first call, and the lease is of two minutes
		_, err = create(other, "key")
		require.ErrorIs(t, err, idempotency.ErrInDoubt)
		bubble.Elapse(maxLateness)
		service.Fail(createApplicationRoute, lendingtest.Fault{Late: time.Minute})
		_, err = create(other, "key")
		require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
		require.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(goOn()))
		_, err = create(other, "key")
		require.ErrorIs(t, err, idempotency.ErrInDoubt)
		require.NoError(t, service.Wait(t.Context()))
		found, err := create(other, "key")
		require.NoError(t, err)
		arrived := len(service.Requests())
		replayed, err := create(other, "key")
		require.NoError(t, err)
		assert.Equal(t, found, replayed)
		assert.Len(t, service.Requests(), arrived, "what is found is written down")
		assert.Equal(t, 1, service.Executed(createApplicationRoute))
	})
}

// TestLaterReadEndsNoReview has a changed status without an offer after a processing. A later read
// shows an offer: nobody knows whose offer it is.
func TestLaterReadEndsNoReview(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		client, id := process(), lending.ApplicationID(uuid.MustParse(service.AddApplication(lendingtest.Application{
			Accounts: []lendingtest.BankAccount{{Transactions: []lendingtest.BankTransaction{{Amount: "10.00"}}}},
		}).ID))
		ctx := lending.WithIdempotencyKey(t.Context(), "process")
		service.Fail(fake.ProcessRoute, lendingtest.Fault{ResetBefore: true})
		_, err := client.Applications.Process(ctx, id)
		require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
		service.Answer(fake.StatusRoute, wire.Answer(http.StatusOK, `"Declined"`))
		bubble.Elapse(maxLateness)
		_, err = client.Applications.Process(ctx, id)
		require.ErrorIs(t, err, idempotency.ErrNeedsReview)
		require.ErrorContains(t, err, "there is no new offer, but the status has changed")
		_, err = client.Applications.Process(t.Context(), id) // by somebody without a key
		require.NoError(t, err)
		_, err = client.Applications.Process(ctx, id)
		require.ErrorIs(t, err, idempotency.ErrNeedsReview)
	})
}

// TestResendAfterWithCheckMakesANewCheck resends a mutation because the caller's check says so. The read
// before the first send does not count for the resend. At the end the check brings no UUID.
func TestResendAfterWithCheckMakesANewCheck(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		client, create := process(), creating(t, service)
		lost := lendingtest.Fault{ResetBefore: true}
		service.Fail(createApplicationRoute, lost)
		_, err := create(client, "key")
		require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
		// somebody without a key
		service.AddApplication(lendingtest.Application{CustomerID: service.Snapshot().Customers[0].ID})
		bubble.Elapse(maxLateness)
		service.Fail(createApplicationRoute, lost)
		_, err = create(client, "key",
			withCheck(func(context.Context) (idempotency.Verdict, error) { return idempotency.NotHappened(), nil }))
		require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
		bubble.Elapse(maxLateness)
		_, err = create(client, "key")
		require.ErrorIs(t, err, idempotency.ErrNeedsReview)
		_, err = create(client, "key",
			withCheck(func(context.Context) (idempotency.Verdict, error) { return idempotency.Happened("no UUID"), nil }))
		require.ErrorIs(t, err, idempotency.ErrAnswerLost)
		assert.Equal(t, lending.OutcomeDone, lending.OutcomeOf(err))
	})
}

func TestKeyIsForOneRoute(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		client, added := process(), service.AddApplication(lendingtest.Application{})
		id := lending.ApplicationID(uuid.MustParse(added.ID))
		ctx := lending.WithIdempotencyKey(t.Context(), "cancel")
		require.NoError(t, client.Applications.Cancel(ctx, id))
		_, err := client.Applications.Process(ctx, id) // which has the same arguments
		require.ErrorIs(t, err, idempotency.ErrKeyReused)
		var failed *lending.Error
		require.ErrorAs(t, err, &failed)
		assert.Equal(t, "Applications.Status", failed.CheckWith, "of the cancellation")
	})
}

// TestRejectedMutationMayBeCorrected after its first send, and not after a send with an unknown outcome.
func TestRejectedMutationMayBeCorrected(t *testing.T) {
	for _, before := range []lendingtest.Fault{{}, {ResetBefore: true}} {
		t.Run(fmt.Sprintf("sent before=%t", before.ResetBefore), func(t *testing.T) {
			keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
				client, user := process(), fake.Newcomer()
				ctx := lending.WithIdempotencyKey(t.Context(), "customer")
				if before.ResetBefore {
					service.Fail(fake.CreateRoute, before)
					_, err := client.Applications.CreateCustomer(ctx, user)
					require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
					bubble.Elapse(maxLateness)
				}
				service.Fail(fake.CreateRoute, lendingtest.Fault{Status: http.StatusBadRequest})
				_, err := client.Applications.CreateCustomer(ctx, user)
				require.Equal(t, lending.OutcomeRejected, lending.OutcomeOf(err))
				user.LastName = "Byron"
				_, err = client.Applications.CreateCustomer(ctx, user)
				if before.ResetBefore {
					require.ErrorIs(t, err, idempotency.ErrKeyReused)
					require.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
					return
				}
				require.NoError(t, err)
			})
		})
	}
}

// flaky is a store with an eye on the context. Its first save as sent fails and has its effect, if loses
// is set.
type flaky struct {
	store.Store
	loses *bool
}

func (f flaky) Save(ctx context.Context, entry store.Entry) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := f.Store.Save(ctx, entry)
	if entry.State == store.Sent && *f.loses {
		*f.loses = false
		return errors.New("the store is away")
	}
	return err
}

// TestOutcomeIsRecorded ends the context of a call: the log records a lost response, and a mutation
// without a send, all the same.
func TestOutcomeIsRecorded(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		loses := true
		log := fake.Must(idempotency.NewLog(flaky{store.NewMemory(), &loses}, nil))
		client, user := processWith(t, service, log), fake.Newcomer()
		create := func() error {
			ctx, stop := context.WithTimeout(lending.WithIdempotencyKey(t.Context(), "customer"), 10*time.Second)
			defer stop()
			_, err := client.Applications.CreateCustomer(ctx, user)
			return err
		}
		err := create()
		require.ErrorIs(t, err, idempotency.ErrStore)
		require.Equal(t, lending.OutcomeNotSent, lending.OutcomeOf(err))
		inDoubt, err := log.Keys(t.Context(), doubtful)
		require.NoError(t, err)
		require.Empty(t, inDoubt)
		service.Fail(fake.CreateRoute, lendingtest.Fault{DelayBefore: time.Hour})
		require.ErrorIs(t, create(), lending.ErrOutcomeUnknown)
		inDoubt, err = log.Keys(t.Context(), doubtful)
		require.NoError(t, err)
		require.Len(t, inDoubt, 1)
		assert.Equal(t, store.InDoubt, inDoubt[0].State)
		bubble.Elapse(maxLateness)
		require.NoError(t, create())
		assert.Equal(t, 1, service.Executed(fake.CreateRoute))
	})
}

// TestRecordOfAnotherProgramIsTaken has others do what cannot be told from the mutation.
func TestRecordOfAnotherProgramIsTaken(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		client, user := process(), fake.Newcomer()
		create := func() error {
			_, err := client.Applications.CreateCustomer(lending.WithIdempotencyKey(t.Context(), "customer"), user)
			return err
		}
		service.AddCustomer(lendingtest.Customer{Email: user.Email})
		service.Fail(fake.CreateRoute, lendingtest.Fault{ResetBefore: true})
		require.ErrorIs(t, create(), lending.ErrOutcomeUnknown)
		bubble.Elapse(maxLateness)
		require.ErrorIs(t, create(), idempotency.ErrNeedsReview, "there was one before")

		loan := service.AddLoan(lendingtest.Loan{})
		const route = "POST /api/Loan/confirm-withdrawal-invoice/{loanId}"
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
		service.Fail(route, lendingtest.Fault{ResetBefore: true})
		require.ErrorIs(t, confirm(), lending.ErrOutcomeUnknown)
		service.AddTransactions(loan.ID, lendingtest.Transaction{Type: "Repayment", Amount: -100})
		bubble.Elapse(maxLateness)
		require.ErrorIs(t, confirm(), idempotency.ErrNeedsReview, "money has moved")
	})
}
