package idempotency_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/lendingtest"
)

// TestResendAfterARestoreIsInFlight has a value of the copy, whose response is swept, sent again after the restore. The
// lock is not free before that send has ended.
func TestResendAfterARestoreIsInFlight(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		const route = "POST /api/Calculation/application-invoice-calculation"
		application := newOrder(service).application
		log := fake.Must(idempotency.NewLog(entries, nil))
		set := func(key string) error {
			_, err := client.Calculation.Invoice(withKey(t.Context(), key), application, fake.Invoice())
			return err
		}
		require.NoError(t, set("swept"))
		bubble.Elapse(31 * 24 * time.Hour)
		require.Equal(t, 1, fake.Must(log.Sweep(t.Context())))
		restored(t, log, copyOfAnHourAgo())
		bubble.Elapse(time.Hour)
		service.Fail(route, lendingtest.Fault{AnswerDelay: 20 * time.Second})
		called := make(chan error, 1)
		go func() { called <- set("swept") }()
		bubble.Elapse(time.Second)
		require.ErrorIs(t, set("swept"), idempotency.ErrInProgress)
		require.ErrorIs(t, set("newer"), idempotency.ErrLocked)
		require.NoError(t, <-called)
	})
}

// TestOwnRecordIsNoClaim has a read show that an application was not made, before or after the restore, and then
// another read the application of a new order. Both are no records of another key.
func TestOwnRecordIsNoClaim(t *testing.T) {
	for _, isAfter := range []bool{false, true} {
		t.Run(fmt.Sprint("after the restore ", isAfter), func(t *testing.T) {
			withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
				user := fake.Must(client.Applications.CreateCustomer(withKey(t.Context(), "customer"), fake.Newcomer()))
				create := order{service: service, customer: user.ID}.creates(t, client)
				log := fake.Must(idempotency.NewLog(entries, nil))
				service.Fail(createApplicationRoute, lendingtest.Fault{ResetBefore: true})
				require.ErrorIs(t, create("another"), lending.ErrOutcomeUnknown)
				bubble.Elapse(maxLateness)
				if !isAfter {
					fake.Must(log.Check(t.Context(), client))
				}
				restored(t, log, claiming())
				bubble.Elapse(maxLateness)
				fake.Must(log.Check(t.Context(), client))
				require.NoError(t, create("another"))
				service.Fail(createApplicationRoute, lendingtest.Fault{ResetAfter: true})
				require.ErrorIs(t, create("new", accepted), lending.ErrOutcomeUnknown)
				bubble.Elapse(maxLateness)
				require.NoError(t, create("new"))
				require.NoError(t, create("lost"))
				assert.Equal(t, 3, service.Executed(createApplicationRoute))
			})
		})
	}
}

// TestLockOfAFreeKeyOfTheCopy has another key take the lock of a key that was about to be sent at the time of the copy,
// and was sent since.
func TestLockOfAFreeKeyOfTheCopy(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		user := fake.Must(client.Applications.CreateCustomer(withKey(t.Context(), "customer"), fake.Newcomer()))
		create := order{service: service, customer: user.ID}.creates(t, client)
		entries.save = func(entry store.Entry) error {
			if entry.Revision > 0 {
				return errStore
			}
			return nil
		}
		require.ErrorIs(t, create("lost"), idempotency.ErrStore)
		entries.save = nil
		require.Equal(t, store.Free, fake.Must(loaded(entries, ":lost")).State)
		require.NotEmpty(t, fake.Must(loaded(entries, ":lost")).Lock)
		service.AddApplication(lendingtest.Application{CustomerID: user.ID.String()})
		log := fake.Must(idempotency.NewLog(entries, nil))
		bubble.Elapse(time.Minute)
		restored(t, log, copyOfAnHourAgo())
		bubble.Elapse(maxLateness)
		create = order{service: service, customer: user.ID}.creates(t, processWith(t, service, log))
		require.ErrorIs(t, create("another"), idempotency.ErrNeedsReview)
		require.ErrorIs(t, create("lost"), idempotency.ErrNeedsReview)
		assert.Zero(t, service.Executed(createApplicationRoute))
	})
}

// TestWholeLogIsReadOnce has the last keys that a question has read all saved again before the next question. After
// another restoration the log is read again.
func TestWholeLogIsReadOnce(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		list := &hiding{Store: entries.Store}
		entries.Store = list
		creates := []func(key string, opts ...keyOption) error{newOrder(service).creates(t, client)}
		require.NoError(t, creates[0]("first"))
		for i := range 30 {
			key := withKey(t.Context(), fmt.Sprint("customer/", i))
			user := fake.Must(client.Applications.CreateCustomer(key, fake.Newcomer()))
			creates = append(creates, order{service: service, customer: user.ID}.creates(t, client))
		}
		log := fake.Must(idempotency.NewLog(entries, nil))
		restored(t, log, claiming())
		for _, want := range []error{idempotency.ErrInDoubt, nil} {
			bubble.Elapse(maxLateness - time.Minute)
			for i, create := range creates[1:] {
				require.ErrorIs(t, create(fmt.Sprint("order/", i)), want)
			}
			bubble.Elapse(time.Minute / 2)
			added := service.AddCustomer(lendingtest.Customer{Email: fake.Newcomer().Email})
			older := order{service: service, customer: fake.Must(lending.ParseCustomerID(added.ID))}
			require.ErrorIs(t, older.creates(t, client)(added.ID), want)
			assert.Equal(t, 1, list.whole)
		}
		restored(t, log, claiming())
		bubble.Elapse(maxLateness)
		require.ErrorIs(t, creates[0]("last"), idempotency.ErrNeedsReview)
		assert.Equal(t, 2, list.whole)
	})
}
