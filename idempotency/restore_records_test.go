package idempotency_test

import (
	"cmp"
	"context"
	"fmt"
	"testing"
	"time"

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

const (
	secondApplicantRoute = "POST /api/ApplicationApproval/add-secondary-applicant-details/{applicationId}"
	processingRoute      = "GET /api/Application/process-application/{applicationId}"
)

// TestOnlyAnEmailAddressIdentifiesARecord has a record that no key of the log has made: of an order before the log, or
// of an order that ended between the copy and the restore. A new key does not take the record, and a person who accepts
// it types no id.
func TestOnlyAnEmailAddressIdentifiesARecord(t *testing.T) {
	extra := catalog.Unpublished{"firstName": "Ada", "lastName": "Lovelace", "email": "ada@example.com"}
	type adds = func(key string) error
	for _, test := range []struct {
		name, why, route string
		prepare          func(*testing.T, *lendingtest.Service, *lending.Client) adds
	}{
		{
			"application", "the service has 1 applications, and the log knows 0, but not ", createApplicationRoute,
			func(t *testing.T, service *lendingtest.Service, client *lending.Client) adds {
				t.Helper()
				user := fake.Must(client.Applications.CreateCustomer(withKey(t.Context(), "customer"), fake.Newcomer()))
				o := order{service: service, customer: user.ID}
				return func(key string) error {
					if key == "" {
						service.AddApplication(lendingtest.Application{CustomerID: user.ID.String()})
						return nil
					}
					return o.creates(t, client)(key)
				}
			},
		},
		{"withdrawal", "the service has 1 withdrawals, and the log knows 0; compare", confirmRoute, withdrawals},
		{
			"secondary applicant", "the service has 1 applicants, and the log knows 0; compare", secondApplicantRoute,
			func(t *testing.T, service *lendingtest.Service, client *lending.Client) adds {
				t.Helper()
				o := newOrder(service)
				prepareOrder(t, client, &o)
				return func(key string) error {
					if key == "" {
						return client.Approval.AddPrimaryApplicantDetails(t.Context(), o.offered,
							lending.PrimaryApplicantRequest{Extra: extra})
					}
					return client.Approval.AddSecondaryApplicantDetails(withKey(t.Context(), key), o.offered,
						lending.SecondaryApplicantRequest{Extra: extra})
				}
			},
		},
		{
			"offer", "the service has 1 offers, and the log knows 0; compare", processingRoute,
			func(t *testing.T, service *lendingtest.Service, client *lending.Client) adds {
				t.Helper()
				o := newOrder(service)
				prepareOrder(t, client, &o)
				return func(key string) error {
					if key == "" {
						return nil
					}
					_, err := client.Applications.Process(withKey(t.Context(), key), o.offered)
					return err
				}
			},
		},
	} {
		for _, happened := range []bool{true, false} {
			t.Run(fmt.Sprint(test.name, "/of the key ", happened), func(t *testing.T) {
				withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
					add := test.prepare(t, service, client)
					bubble.Elapse(time.Hour)
					require.NoError(t, add(""))
					log := fake.Must(idempotency.NewLog(entries, nil))
					restored(t, log, copyOfAnHourAgo())
					bubble.Elapse(maxLateness)
					sent := service.Executed(test.route)
					err := add("order-42/new")
					require.ErrorIs(t, err, idempotency.ErrNeedsReview)
					require.ErrorContains(t, err, test.why)
					fake.Must(log.Check(t.Context(), client))
					require.ErrorIs(t, add("order-42/new"), idempotency.ErrNeedsReview)
					assert.Equal(t, sent, service.Executed(test.route))
					verdict := idempotency.NotHappened()
					if happened {
						verdict = idempotency.Happened(nil)
					} else {
						sent++
					}
					require.NoError(t, log.Resolve(t.Context(), "order-42/new", says(verdict)))
					require.NoError(t, add("order-42/new"))
					assert.Equal(t, sent, service.Executed(test.route))
				})
			})
		}
	}
}

// TestEveryKnownRecordIsFound has a customer with many applications, which the log knows, also after Sweep. It reads
// their entries, and then reads them again: it takes none of them for that of a lost key.
func TestEveryKnownRecordIsFound(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		user := fake.Must(client.Applications.CreateCustomer(withKey(t.Context(), "customer"), fake.Newcomer()))
		create := (order{service: service, customer: user.ID}).createsID(t, client)
		first := fake.Must(create("known"))
		for i := range 200 {
			fake.Must(create(fmt.Sprint("known/", i)))
		}
		bubble.Elapse(31 * 24 * time.Hour)
		log := fake.Must(idempotency.NewLog(entries, nil))
		fake.Must(log.Sweep(t.Context()))
		restored(t, log, copyOfAnHourAgo())
		bubble.Elapse(maxLateness)
		for i := range 2 {
			fake.Must(create(fmt.Sprint("new/", i)))
			bubble.Elapse(time.Minute)
		}
		assert.Equal(t, first, fake.Must(create("known")))
		assert.Equal(t, 203, service.Executed(createApplicationRoute))
	})
}

// TestDoubtOfTheCopyTakesNoUnknownRecord has a key in doubt at the time of the copy: the record in the list can be
// that of a lost key.
func TestDoubtOfTheCopyTakesNoUnknownRecord(t *testing.T) {
	for _, by := range []string{"call", "Check"} {
		t.Run(by, func(t *testing.T) {
			withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
				confirm := withdrawals(t, service, client)
				service.Fail(confirmRoute, lendingtest.Fault{ResetBefore: true})
				require.ErrorIs(t, confirm("old"), lending.ErrOutcomeUnknown)
				bubble.Elapse(time.Hour)
				require.NoError(t, confirm(""), "by the lost key")
				log := fake.Must(idempotency.NewLog(entries, nil))
				restored(t, log, copyOfAnHourAgo())
				bubble.Elapse(maxLateness)
				if by == "Check" {
					fake.Must(log.Check(t.Context(), client))
				}
				require.ErrorIs(t, confirm("old"), idempotency.ErrNeedsReview)
				assert.Equal(t, 1, service.Executed(confirmRoute))
			})
		})
	}
}

// TestOrderAcceptedAfterTheRestoreIsSent has a customer with an application that the log does not know.
func TestOrderAcceptedAfterTheRestoreIsSent(t *testing.T) {
	for _, test := range []struct {
		name     string
		accepted time.Duration // after Restored
		want     error
		sends    int
	}{
		{"after", time.Second, nil, 1},
		{"by a clock ahead of this process", time.Minute, nil, 1},
		{"before", -time.Second, idempotency.ErrNeedsReview, 0},
		{"in the future", time.Hour, idempotency.ErrNeedsReview, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			atNight(t, func(t *testing.T, service *lendingtest.Service, client *lending.Client, log *idempotency.Log) {
				at := time.Now().Add(test.accepted - time.Second)
				bubble.Elapse(time.Second)
				create := newOrder(service).createsID(t, client)
				ofOrder := func(ctx context.Context) context.Context { return idempotency.WithAccepted(ctx, at) }
				known := fake.Must(log.Lookup(ofOrder(t.Context()), "order-42/application")).Outcome
				assert.Equal(t, test.want == nil, known == lending.OutcomeNotSent, known)
				_, err := create("order-42/application", ofOrder)
				require.ErrorIs(t, err, test.want)
				assert.Equal(t, test.sends, service.Executed(createApplicationRoute))
			})
		})
	}
}

// accepted is an option of an order that was accepted a moment ago.
func accepted(ctx context.Context) context.Context { return idempotency.WithAccepted(ctx, time.Now()) }

// TestKeyOfTheCopyIsNoNewOrder has the key of an order in the copy, so the order was accepted before.
func TestKeyOfTheCopyIsNoNewOrder(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		create := newOrder(service).creates(t, client)
		service.Fail(createApplicationRoute, lendingtest.Fault{Status: 429})
		require.Error(t, create("the/key"))
		bubble.Elapse(time.Hour)
		log := fake.Must(idempotency.NewLog(entries, nil))
		restored(t, log, copyOfAnHourAgo())
		bubble.Elapse(time.Second)
		assert.Equal(t, lending.OutcomeUnknown, fake.Must(log.Lookup(accepted(t.Context()), "the/key")).Outcome)
		require.ErrorIs(t, create("the/key", accepted), idempotency.ErrNeedsReview)
	})
}

// TestRestoredPausesTheLog has the log paused before, or not: only Resume ends the pause.
func TestRestoredPausesTheLog(t *testing.T) {
	for _, by := range []string{"", "eva"} {
		t.Run(by, func(t *testing.T) {
			withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
				log := fake.Must(idempotency.NewLog(entries, nil))
				if by != "" {
					require.NoError(t, log.Pause(t.Context(), idempotency.Decision{By: by, Why: "doubles"}))
				}
				require.NoError(t, log.Restored(t.Context(), copyOfAnHourAgo()))
				bubble.Elapse(maxLateness)
				err := creation(t, client, fake.Ada())("the/key")
				require.ErrorIs(t, err, idempotency.ErrPaused)
				require.ErrorContains(t, err, cmp.Or(by, "kim"))
				require.NoError(t, log.Resume(t.Context()))
				bubble.Elapse(time.Second)
				require.NoError(t, creation(t, client, fake.Ada())("the/key"))
				assert.Equal(t, 1, service.Executed(fake.CreateRoute))
			})
		})
	}
}

// TestOutcomeIsUnknownUntilTheLogKnows has a withdrawal that the store lost. A read of the log or of the
// service fails before the log can tell.
func TestOutcomeIsUnknownUntilTheLogKnows(t *testing.T) {
	loan := "GET /api/Loan/get-loan/{loanId}"
	for _, test := range []struct {
		name    string
		prepare func(*lendingtest.Service, *tampered)
	}{
		{"instructions", func(_ *lendingtest.Service, e *tampered) {
			loads := 0
			e.load = func(string) error {
				if loads++; loads == 2 {
					return errStore
				}
				return nil
			}
		}},
		{"the loan fails", func(s *lendingtest.Service, _ *tampered) { s.Fail(loan, lendingtest.Fault{ResetBefore: true}) }},
		{"the loan is forbidden", func(s *lendingtest.Service, _ *tampered) {
			for range 2 {
				s.Fail(loan, lendingtest.Fault{Status: 403})
			}
		}},
		{"the save fails", func(_ *lendingtest.Service, e *tampered) {
			e.save = func(store.Entry) error { return errStore }
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
				confirm := withdrawals(t, service, client)
				require.NoError(t, confirm(""), "by the lost key")
				bubble.Elapse(time.Hour)
				restored(t, fake.Must(idempotency.NewLog(entries, nil)), copyOfAnHourAgo())
				bubble.Elapse(maxLateness)
				test.prepare(service, entries)
				assert.Equal(t, lending.OutcomeUnknown, lending.OutcomeOf(confirm("order-42/confirm")))
				entries.load, entries.save = nil, nil
				require.ErrorIs(t, confirm("order-42/confirm"), idempotency.ErrNeedsReview)
				assert.Equal(t, 1, service.Executed(confirmRoute))
			})
		})
	}
}

// TestSecondRestoreRestartsTheDoubt has two restorations in a row: after the second the mutation can be executed for
// MaxLateness again. A check and another key wait as well.
func TestSecondRestoreRestartsTheDoubt(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		user := fake.Must(client.Applications.CreateCustomer(withKey(t.Context(), "customer"), fake.Newcomer()))
		create := (order{service: service, customer: user.ID}).creates(t, client)
		log := fake.Must(idempotency.NewLog(entries, nil))
		bubble.Elapse(time.Hour)
		for range 2 {
			restored(t, log, copyOfAnHourAgo())
			bubble.Elapse(maxLateness - time.Second)
			require.ErrorIs(t, create("the/key"), idempotency.ErrInDoubt)
			fake.Must(log.Check(t.Context(), client))
			require.ErrorIs(t, create("another"), idempotency.ErrLocked)
		}
		assert.Zero(t, service.Executed(createApplicationRoute))
		bubble.Elapse(time.Second)
		require.NoError(t, create("the/key"))
	})
}

// TestCheckNamesTheRecord has an application appear while its key waits for MaxLateness. The review by Check names the
// application.
func TestCheckNamesTheRecord(t *testing.T) {
	atNight(t, func(t *testing.T, service *lendingtest.Service, client *lending.Client, log *idempotency.Log) {
		user := service.AddCustomer(lendingtest.Customer{Email: fake.Ada().Email})
		create := order{service: service, customer: fake.Must(lending.ParseCustomerID(user.ID))}.createsID(t, client)
		_, err := create("the/key")
		require.ErrorIs(t, err, idempotency.ErrInDoubt)
		id := service.AddApplication(lendingtest.Application{CustomerID: user.ID}).ID
		bubble.Elapse(maxLateness)
		fake.Must(log.Check(t.Context(), client))
		assert.Contains(t, fake.Must(log.Lookup(t.Context(), "the/key")).Why, "but not "+id)
		require.NoError(t, log.Resolve(t.Context(), "the/key", says(idempotency.Happened(nil))))
		assert.Equal(t, id, fake.Must(create("the/key")).String())
	})
}

// TestCustomerOfAnEarlierOrderIsThatOfTheKey has a returning customer, whom the log knows or has forgotten.
func TestCustomerOfAnEarlierOrderIsThatOfTheKey(t *testing.T) {
	for _, forgets := range []bool{false, true} {
		t.Run(fmt.Sprint("forgotten ", forgets), func(t *testing.T) {
			withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
				log := fake.Must(idempotency.NewLog(entries, nil))
				require.NoError(t, creation(t, client, fake.Ada())("order-1/customer"))
				bubble.Elapse(time.Hour)
				if forgets {
					fake.Must(log.Forget(t.Context(), "order-1/"))
				}
				restored(t, log, copyOfAnHourAgo())
				bubble.Elapse(time.Second)
				require.NoError(t, creation(t, client, fake.Ada())("order-2/customer"))
				assert.Equal(t, 1, service.Executed(fake.CreateRoute))
			})
		})
	}
}
